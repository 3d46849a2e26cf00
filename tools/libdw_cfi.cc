// SPDX-License-Identifier: MIT
#include "libdw_cfi.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <cstdlib>
#include <unordered_map>
#include <dwarf.h>
#include "dwarf_term.h"

namespace {

constexpr int RBP = 6, RSP = 7, LAST_GENERAL_REGISTER = 15;

// DW_EH_PE_*: how pointers in .eh_frame are written.
constexpr unsigned PE_OMIT = 0xff, PE_FORM = 0x0f, PE_BASE = 0x70, PE_PCREL = 0x10,
		   PE_INDIRECT = 0x80;

// A cursor over bytes of .eh_frame; sticky failure.
class Reader {
public:
	Reader(const uint8_t *at, const uint8_t *end) : at_(at), end_(end) {}
	bool ok() const { return ok_; }
	const uint8_t *at() const { return at_; }

	template <typename T> T fixed()
	{
		T value = 0;

		if (static_cast<size_t>(end_ - at_) < sizeof(T)) {
			ok_ = false;
			return 0;
		}
		memcpy(&value, at_, sizeof(T));
		at_ += sizeof(T);
		return value;
	}

	uint64_t leb(bool is_signed)
	{
		uint64_t value = 0;
		unsigned shift = 0;
		uint8_t byte;

		do {
			byte = fixed<uint8_t>();
			if (shift < 64)
				value |= static_cast<uint64_t>(byte & 0x7f) << shift;
			shift += 7;
		} while (ok_ && (byte & 0x80));
		if (is_signed && (byte & 0x40) && shift < 64)
			value |= ~uint64_t{0} << shift;
		return value;
	}

	// A pointer's value without its base.
	uint64_t form(unsigned encoding)
	{
		switch (encoding & PE_FORM) {
		case 0x00: case 0x04: case 0x0c: return fixed<uint64_t>();
		case 0x01: return leb(false);
		case 0x09: return leb(true);
		case 0x02: return fixed<uint16_t>();
		case 0x0a: return static_cast<uint64_t>(fixed<int16_t>());
		case 0x03: return fixed<uint32_t>();
		case 0x0b: return static_cast<uint64_t>(fixed<int32_t>());
		default: ok_ = false; return 0;
		}
	}

private:
	const uint8_t *at_, *end_;
	bool ok_ = true;
};

// The encoding of a CIE's FDE pointers ('R'), absolute if it names none.
// false: the augmentation is unknown.
bool fde_encoding(const Dwarf_CIE &cie, unsigned *encoding)
{
	Reader data(cie.augmentation_data, cie.augmentation_data + cie.augmentation_data_size);

	*encoding = 0;
	if (cie.augmentation[0] == '\0')
		return true;
	if (cie.augmentation[0] != 'z')
		return false;
	for (const char *c = cie.augmentation + 1; *c; c++) {
		switch (*c) {
		case 'R':
			*encoding = data.fixed<uint8_t>();
			return data.ok();
		case 'P': {
			const unsigned personality = data.fixed<uint8_t>();

			if (personality != PE_OMIT)
				data.form(personality);
			break;
		}
		case 'L':
			data.fixed<uint8_t>();
			break;
		case 'S': case 'B':
			break;
		default:
			return false;
		}
	}
	return true;
}

// A term as a rule, if it has that form at all.
bool to_rule(const Term &term, sframe_decoded_rule *rule)
{
	if ((term.kind != Term::LINEAR && term.kind != Term::MEMORY) || term.plus)
		return false;
	*rule = {};
	rule->base = term.base;
	rule->deref = term.kind == Term::MEMORY;
	rule->reg = term.reg;
	rule->offset = static_cast<int32_t>(term.offset);
	return true;
}

bool fits(const Term &term) { return term.offset >= INT32_MIN && term.offset <= INT32_MAX; }


void refuse(LibdwCfi::Row &row, int kind, const std::string &text)
{
	row.verdict = LibdwCfi::NOT_EXPRESSIBLE;
	row.kind = kind;
	row.text = text;
}

// RA or FP from libdw's answer; false after refuse().
bool judge_register(LibdwCfi::Row &row, const Dwarf_Op *ops, size_t count, uint64_t pc, int kind,
		    const char *name, sframe_decoded_rule *rule, bool *used_pc)
{
	Evaluation value = evaluate_expression(ops, count, pc);

	if (!value.is_value)
		value.term = value.term.deref();
	*used_pc |= value.used_pc;
	if (!to_rule(value.term, rule) || rule->reg > LAST_GENERAL_REGISTER) {
		refuse(row, kind, std::string(name) + "=" + value.term.text());
		return false;
	}
	if (!fits(value.term)) {
		refuse(row, SFRAME_UNCOVERED_OFFSET, std::string(name) + "=" + value.term.text());
		return false;
	}
	return true;
}

// An SFrame unwinder takes CFA for the caller's rsp. CFI may say otherwise (a
// longjmp that has loaded its target): then SFrame cannot go on from there.
bool is_cfa(const Dwarf_Op *ops, size_t count, uint64_t pc, const sframe_decoded_rule &cfa)
{
	Evaluation sp = evaluate_expression(ops, count, pc);
	sframe_decoded_rule rule;

	if (!sp.is_value)
		sp.term = sp.term.deref();
	if (!to_rule(sp.term, &rule) || !fits(sp.term))
		return false;
	if (rule.base == SFRAME_BASE_CFA)
		return !rule.deref && !rule.offset;
	return same_rule(rule, cfa);
}

} // namespace

LibdwCfi::~LibdwCfi()
{
	if (cfi_)
		dwarf_cfi_end(cfi_);
}

bool LibdwCfi::open(const ElfFile &file, std::string *why)
{
	if (!find_eh_frame(file) && !find_eh_frame_by_segment(file)) {
		*why = file.path() + ": has no .eh_frame; there is nothing to compare with";
		return false;
	}
	elf_ = file.elf();
	cfi_ = dwarf_getcfi_elf(elf_);
	if (!cfi_) {
		*why = file.path() + ": libdw cannot read its .eh_frame: " + dwarf_errmsg(-1) +
		       "; `readelf --debug-dump=frames` may tell more";
		return false;
	}
	read_fdes(file);
	return true;
}

bool LibdwCfi::find_eh_frame(const ElfFile &file)
{
	const auto section = file.section(".eh_frame");
	const auto header = file.section(".eh_frame_hdr");

	if (!section || section->bytes.empty())
		return false;
	eh_frame_ = section->bytes;
	eh_frame_address_ = section->address;
	section_size_ = section->size + (header ? header->size : 0);
	return true;
}

// Without section headers: .eh_frame_hdr says where .eh_frame starts; its end is
// where its entries end.
bool LibdwCfi::find_eh_frame_by_segment(const ElfFile &file)
{
	for (const GElf_Phdr &phdr : file.program_headers()) {
		const Bytes header = file.at(phdr.p_vaddr, phdr.p_memsz);

		if (phdr.p_type != PT_GNU_EH_FRAME || header.size() < 8)
			continue;
		Reader reader(header.data() + 4, header.data() + header.size());
		const unsigned encoding = header[1];
		uint64_t start = reader.form(encoding);

		if ((encoding & PE_BASE) == PE_PCREL)
			start += phdr.p_vaddr + 4;
		if (!reader.ok() || (eh_frame_ = file.at(start, UINT64_MAX)).empty())
			continue;
		eh_frame_address_ = start;
		section_size_ = phdr.p_memsz;
		return true;
	}
	return false;
}

void LibdwCfi::read_fdes(const ElfFile &file)
{
	std::unordered_map<Dwarf_Off, Dwarf_CIE> cies;
	Elf_Data data{};
	Dwarf_CFI_Entry entry;
	Dwarf_Off next = 0;
	bool by_segment = !file.section(".eh_frame");

	data.d_buf = const_cast<unsigned char *>(eh_frame_.data());
	data.d_size = eh_frame_.size();
	data.d_type = ELF_T_BYTE;
	data.d_version = EV_CURRENT;
	const auto *ident = reinterpret_cast<const unsigned char *>(elf_getident(elf_, nullptr));
	for (Dwarf_Off at = 0; at + 4 <= eh_frame_.size(); at = next) {
		uint32_t length;

		// A zero word ends the section for a consumer that walks it; linkers
		// put one last.
		memcpy(&length, eh_frame_.data() + at, 4);
		if (length == 0) {
			next = at + 4;
			if (by_segment)
				break;
			continue;
		}
		const int status = dwarf_next_cfi(ident, &data, true, at, &next, &entry);
		if (status > 0 || next <= at)
			break;
		if (status < 0)
			unreadable_++;
		else if (dwarf_cfi_cie_p(&entry))
			cies.emplace(at, entry.cie);
		else if (auto cie = cies.find(entry.fde.CIE_pointer);
			 cie == cies.end() || !read_fde(cie->second, entry.fde, at))
			unreadable_++;
	}
	if (by_segment)
		section_size_ += next;
	std::sort(fdes_.begin(), fdes_.end(), [](const Fde &a, const Fde &b) {
		return a.start != b.start ? a.start < b.start : a.end < b.end;
	});
}

bool LibdwCfi::read_fde(const Dwarf_CIE &cie, const Dwarf_FDE &entry, uint64_t offset)
{
	Reader reader(entry.start, entry.end);
	unsigned encoding;

	if (!fde_encoding(cie, &encoding) || (encoding & PE_INDIRECT))
		return false;
	const uint64_t field = eh_frame_address_ +
			       static_cast<uint64_t>(entry.start - eh_frame_.data());
	uint64_t start = reader.form(encoding);
	const uint64_t size = reader.form(encoding & PE_FORM & ~8u);
	if ((encoding & PE_BASE) == PE_PCREL)
		start += field;
	else if (encoding & PE_BASE)
		return false;
	if (!reader.ok() || start + size < start)
		return false;
	if (size)
		fdes_.push_back({ start, start + size, offset });
	else
		empty_++;
	return true;
}

LibdwCfi::Row LibdwCfi::row_at(uint64_t pc) const
{
	Row row{ pc, pc + 1, UNJUDGED, 0, false, {}, {} };
	Dwarf_Frame *frame = nullptr;
	bool signal = false;

	if (dwarf_cfi_addrframe(cfi_, pc, &frame)) {
		row.text = dwarf_errmsg(-1);
		return row;
	}
	const int ra_column = dwarf_frame_info(frame, &row.start, &row.end, &signal);
	row.row.signal = signal;
	if (ra_column < 0 || row.start > pc || row.end <= pc) {
		row.text = "libdw gives no range";
		row.start = pc;
		row.end = pc + 1;
	} else if (evaluate(frame, ra_column, pc, row)) {
		row.start = pc;
		row.end = pc + 1;
	}
	free(frame);
	return row;
}

// Fills verdict and rules. Returns whether the answer holds for this PC only.
bool LibdwCfi::evaluate(Dwarf_Frame *frame, int ra_column, uint64_t pc, Row &row) const
{
	Dwarf_Op memory[3], *ops = nullptr;
	size_t count = 0;
	bool used_pc = false;

	if (dwarf_frame_register(frame, ra_column, memory, &ops, &count)) {
		row.text = dwarf_errmsg(-1);
		return false;
	}
	if (count == 0 && ops == memory) {
		row.row.outermost = 1;
		row.verdict = EXPRESSIBLE;
		row.row = canonical(row.row);
		return false;
	}
	const bool ra_unchanged = count == 0;
	if (!ra_unchanged && !judge_register(row, ops, count, pc, SFRAME_UNCOVERED_RA, "RA",
					     &row.row.ra, &used_pc))
		return used_pc;

	if (dwarf_frame_cfa(frame, &ops, &count)) {
		row.text = dwarf_errmsg(-1);
		return used_pc;
	}
	if (count == 0) {
		refuse(row, SFRAME_UNCOVERED_NO_CFA, "no CFA rule");
		return used_pc;
	}
	const Evaluation cfa = evaluate_expression(ops, count, pc);
	used_pc |= cfa.used_pc;
	if (!to_rule(cfa.term, &row.row.cfa) || row.row.cfa.base != SFRAME_BASE_REG) {
		refuse(row, SFRAME_UNCOVERED_CFA_EXPRESSION, "CFA=" + cfa.term.text());
		return used_pc;
	}
	if (row.row.cfa.reg > LAST_GENERAL_REGISTER || !fits(cfa.term)) {
		refuse(row, fits(cfa.term) ? SFRAME_UNCOVERED_CFA_REGISTER : SFRAME_UNCOVERED_OFFSET,
		       "CFA=" + cfa.term.text());
		return used_pc;
	}
	// SFrame has no words for a return address that is where the caller's was,
	// nor for one that is the CFA itself.
	if (ra_unchanged || (row.row.ra.base == SFRAME_BASE_CFA && !row.row.ra.deref &&
			     !row.row.ra.offset)) {
		refuse(row, SFRAME_UNCOVERED_RA, ra_unchanged ? "RA unchanged" : "RA=CFA");
		return used_pc;
	}

	if (dwarf_frame_register(frame, RSP, memory, &ops, &count)) {
		row.text = dwarf_errmsg(-1);
		return used_pc;
	}
	if (!is_cfa(ops, count, pc, row.row.cfa)) {
		refuse(row, SFRAME_UNCOVERED_CFA_EXPRESSION, "the caller's rsp is not CFA");
		return used_pc;
	}

	if (dwarf_frame_register(frame, RBP, memory, &ops, &count)) {
		row.text = dwarf_errmsg(-1);
		return used_pc;
	}
	row.fp_undefined = count == 0 && ops == memory;
	if (count && !judge_register(row, ops, count, pc, SFRAME_UNCOVERED_FP, "FP", &row.row.fp,
				     &used_pc))
		return used_pc;
	row.verdict = EXPRESSIBLE;
	row.row = canonical(row.row);
	return used_pc;
}
