// SPDX-License-Identifier: MIT
#include "return_site.h"

#include <cstddef>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include "core.h"
#include "link_map.h"
#include "registry.h"

namespace sframe {

namespace {

constexpr unsigned char kRet = 0xc3;

// So many bytes of code are looked at for an epilogue: nearly every object has
// one among its first functions.
constexpr uint64_t kSearchLimit = 1 << 20;

// .eh_frame_hdr's table, in the encoding that linkers write.
struct Entry {
	int32_t function, fde;	// offsets from the header
};

struct Table {
	uint64_t base = 0;
	const Entry *entry = nullptr;
	uint32_t count = 0;
};

Table table_at(uint64_t address)
{
	const auto *hdr = reinterpret_cast<const unsigned char *>(address);
	Table table;

	if (hdr[0] != 1 || hdr[1] != 0x1b || hdr[2] != 0x03 || hdr[3] != 0x3b)
		return table;
	table.base = address;
	memcpy(&table.count, hdr + 8, sizeof(table.count));
	table.entry = reinterpret_cast<const Entry *>(hdr + 12);
	return table;
}

// The one CIE to trust: augmentation "zR", PC-relative 32-bit pointers, and at
// a function's first instruction CFA = rsp+8, return address at CFA-8. No
// personality, so that no exception can be caught there.
bool plain_cie(const unsigned char *cie)
{
	static constexpr unsigned char kPlain[] = {
		1, 'z', 'R', 0,		// version, augmentation
		1, 0x78, 16, 1, 0x1b,	// alignments 1 and -8, RA column, R: sdata4 pcrel
		0x0c, 7, 8,		// DW_CFA_def_cfa rsp+8
		0x90, 1,		// DW_CFA_offset rip at CFA-8
	};
	uint32_t length;

	memcpy(&length, cie, sizeof(length));
	if (length < 4 + sizeof(kPlain) || length > 64 || memcmp(cie + 8, kPlain, sizeof(kPlain)))
		return false;
	for (uint32_t i = 4 + sizeof(kPlain); i < length; i++)
		if (cie[4 + i])
			return false;
	return true;
}

struct Function {
	uint64_t start;
	uint32_t size;
	uint32_t first_row;	// bytes from its start that the CIE's own rules hold for
	bool plain;		// of a CIE to trust
};

// Where the first row ends, by the instruction that ends it.
uint32_t first_row(const unsigned char *at, const unsigned char *end, uint32_t size)
{
	uint32_t delta = 0;

	while (at < end && *at == 0)	// DW_CFA_nop
		at++;
	if (at == end)
		return size;
	if (*at >> 6 == 1) {		// DW_CFA_advance_loc
		delta = *at & 0x3f;
	} else if (*at == 2 && end - at > 1) {
		delta = at[1];
	} else if (*at == 3 && end - at > 2) {
		uint16_t wide;

		memcpy(&wide, at + 1, sizeof(wide));
		delta = wide;
	}
	return delta < size ? delta : size;
}

Function function_at(const Table &table, uint32_t i)
{
	const auto *fde = reinterpret_cast<const unsigned char *>(
		table.base + static_cast<uint64_t>(int64_t{table.entry[i].fde}));
	Function function = {};
	uint32_t length, cie;

	function.start = table.base + static_cast<uint64_t>(int64_t{table.entry[i].function});
	memcpy(&length, fde, sizeof(length));
	memcpy(&cie, fde + 4, sizeof(cie));
	memcpy(&function.size, fde + 12, sizeof(function.size));
	function.plain = length >= 13 && length < 0xfffffff0 && cie && fde[16] == 0 &&
			 plain_cie(fde + 4 - cie);
	if (function.plain)
		function.first_row = first_row(fde + 17, fde + 4 + length, function.size);
	return function;
}

uint64_t find_ret(uint64_t start, uint64_t end)
{
	for (uint64_t at = start; at < end; at++)
		if (*reinterpret_cast<const unsigned char *>(at) == kRet)
			return at;
	return 0;
}

// call rel32, call *offset(%rip), call *%reg
bool behind_call(const unsigned char *at)
{
	return at[-5] == 0xe8 || (at[-6] == 0xff && at[-5] == 0x15) ||
	       (at[-2] == 0xff && (at[-1] & 0xf8) == 0xd0);
}

bool is_rule(const sframe_rule &rule, int base, unsigned int reg, bool deref, int32_t offset)
{
	return rule.base == base && (base != SFRAME_RULE_REG || rule.reg == reg) &&
	       rule.deref == deref && (base == SFRAME_RULE_NONE || rule.offset == offset);
}

// Do the registered rows say of the call before @site that the frame is as the
// epilogue takes it?
bool rows_agree(uint64_t site, ReturnSite::Kind kind)
{
	Covering covering;
	sframe_row row;
	const uint32_t token = registry_read_enter();
	const bool found = registry_lookup(site - 1, &covering) == 0 &&
			   sframe_lookup(&covering.section, site - 1, &row, nullptr) == SFRAME_OK;

	registry_read_leave(token);
	if (!found || row.outermost || row.signal || !is_rule(row.ra, SFRAME_RULE_CFA, 0, true, -8))
		return false;
	if (kind == ReturnSite::kAdd)
		return is_rule(row.cfa, SFRAME_RULE_REG, SFRAME_AMD64_REG_SP, false, 16) &&
		       row.fp.base == SFRAME_RULE_NONE;
	return is_rule(row.cfa, SFRAME_RULE_REG, SFRAME_AMD64_REG_FP, false, 16) &&
	       is_rule(row.fp, SFRAME_RULE_CFA, 0, true, -16);
}

// An epilogue right behind a call in [start, end).
ReturnSite epilogue(uint64_t start, uint64_t end)
{
	static constexpr unsigned char kAdd[] = { 0x48, 0x83, 0xc4, 0x08, kRet };
	static constexpr unsigned char kLeave[] = { 0xc9, kRet };

	for (uint64_t at = start + 6; at + sizeof(kAdd) <= end; at++) {
		const auto *code = reinterpret_cast<const unsigned char *>(at);
		const bool add = !memcmp(code, kAdd, sizeof(kAdd));

		if (!add && memcmp(code, kLeave, sizeof(kLeave)))
			continue;
		const auto kind = add ? ReturnSite::kAdd : ReturnSite::kLeave;
		if (behind_call(code) && rows_agree(at, kind))
			return { at, kind };
	}
	return {};
}

// Unwinders look up the address before a return address: it must be in the
// function and in its first row, the ret itself may be the next byte.
uint64_t frameless_site(const Function &function)
{
	const uint32_t row = function.first_row;

	if (row < 2)
		return 0;
	return find_ret(function.start + 1,
			function.start + (row < function.size ? row + 1 : function.size));
}

ReturnSite covered_site(const Table &table)
{
	ReturnSite second;
	uint64_t searched = 0;

	for (uint32_t i = 0; i < table.count && searched < kSearchLimit; i++) {
		const Function function = function_at(table, i);

		if (!function.plain)
			continue;
		searched += function.size;
		const ReturnSite site = epilogue(function.start, function.start + function.size);
		if (site.address)
			return site;
		if (!second.address)
			second.address = frameless_site(function);
	}
	return second;
}

// Between the functions that .eh_frame describes.
uint64_t uncovered_site(const Table &table, const Elf64_Phdr &text, uint64_t bias)
{
	const uint64_t end = bias + text.p_vaddr + text.p_filesz;
	uint64_t at = bias + text.p_vaddr;

	for (uint32_t i = 0; i < table.count && at < end; i++) {
		const Function function = function_at(table, i);

		if (function.start >= end || function.start + function.size <= at)
			continue;
		// Not the first byte: the one before it may belong to a function.
		if (const uint64_t site = find_ret(at + 1, function.start))
			return site;
		at = function.start + function.size;
	}
	return find_ret(at + 1, end);
}

ReturnSite search(const struct link_map &map, uint64_t eh_frame_hdr)
{
	const auto *phdr = reinterpret_cast<const Elf64_Phdr *>(getauxval(AT_PHDR));
	ReturnSite site;
	Headers headers;
	Table table;

	if (eh_frame_hdr)
		table = table_at(eh_frame_hdr);
	site = covered_site(table);
	if (site.address || !find_headers(map, phdr, getauxval(AT_PHNUM), &headers))
		return site;
	for (size_t i = 0; i < headers.phnum && !site.address; i++) {
		const Elf64_Phdr &ph = headers.phdr[i];

		if (ph.p_type == PT_LOAD && ph.p_flags & PF_X && ph.p_flags & PF_R)
			site.address = uncovered_site(table, ph, map.l_addr);
	}
	release_headers(headers);
	return site;
}

} // namespace

ReturnSite find_return_site(uint64_t address)
{
	struct dl_find_object object;

	if (_dl_find_object(reinterpret_cast<void *>(address - 1), &object) != 0 &&
	    _dl_find_object(reinterpret_cast<void *>(getauxval(AT_ENTRY)), &object) != 0)
		return {};
	return search(*object.dlfo_link_map, reinterpret_cast<uint64_t>(object.dlfo_eh_frame));
}

} // namespace sframe
