// SPDX-License-Identifier: MIT
//
// Reading sections for tools: the core behind the C ABI of <sframe/decode.h>.
//
// The section's bytes lie wherever the caller has them; the core sees them at
// the section's link-time address. Every read is checked against the section,
// so hostile bytes cost an error and nothing else.
#include <sframe/decode.h>
#include "sys.h"

#include <linux/mman.h>

#include <cstring>
#include <new>

namespace {
int read_section(const void *io, void *dst, uint64_t addr, uint64_t len);
}

#define SFRAME_CORE_FOREIGN 1
#define SFRAME_CORE_READ(io, dst, addr, len) read_section(io, dst, addr, len)
#define SFRAME_CORE_REG(io, regno, value) (-1)
#include "core.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

struct sframe_decoder {
	const unsigned char *bytes;
	uint64_t size;
	uint64_t address;	// where the core sees the section
	sframe_section section;
	sframe_section_info info;
};

namespace {

using Decoder = sframe_decoder;

int read_section(const void *io, void *dst, uint64_t addr, uint64_t len)
{
	const Decoder *dec = static_cast<const Decoder *>(io);
	uint64_t at = addr - dec->address;

	if (at > dec->size || len > dec->size - at)
		return -1;
	memcpy(dst, dec->bytes + at, len);
	return 0;
}

// The accessor only reads through it; the core has no const of its own.
void *io_of(const Decoder *dec)
{
	return const_cast<Decoder *>(dec);
}

int to_errno(int status)
{
	switch (status) {
	case SFRAME_OK:
		return 0;
	case SFRAME_NOT_COVERED:
		return -ENOENT;
	default:
		return -EBADMSG;
	}
}

// What the core's struct sframe_section has no use for is taken from the header again.
void fill_info(Decoder *dec)
{
	const sframe_section &sec = dec->section;
	sframe_section_info &info = dec->info;
	const unsigned char *h = dec->bytes;

	info.version = sec.version;
	info.flags = sec.flags;
	info.abi = sec.abi;
	info.auxhdr_len = h[offsetof(sframe_header, auxhdr_len)];
	info.fixed_fp = sec.fixed_fp;
	info.fixed_ra = sec.fixed_ra;
	info.swapped = sec.swapped;
	info.num_fdes = sec.num_fdes;
	info.num_fres = sec.num_fres;
	info.fre_len = sec.fre_len;
	info.fdeoff = sframe_get(&sec, h + offsetof(sframe_header, fdeoff), 4);
	info.freoff = sframe_get(&sec, h + offsetof(sframe_header, freoff), 4);
}

void fill_function(sframe_function *fn, const sframe_fde &fde)
{
	memset(fn, 0, sizeof(*fn));
	fn->start = fde.start;
	fn->size = fde.size;
	fn->num_rows = fde.num_rows;
	fn->row_type = static_cast<uint8_t>(1u << fde.row_type);
	fn->pctype = fde.pctype;
	fn->type = fde.type;
	fn->signal = fde.signal;
	fn->rep_size = fde.rep_size;
	fn->pauth_key = fde.pauth_key;
	fn->private_[0] = fde.row_addr;
	fn->private_[1] = fde.row_end;
}

// The way back: only what reading rows needs.
sframe_fde fde_of(const sframe_function *fn)
{
	sframe_fde fde = {};

	fde.start = fn->start;
	fde.size = fn->size;
	fde.num_rows = fn->num_rows;
	fde.row_addr = fn->private_[0];
	fde.row_end = fn->private_[1];
	fde.row_type = fn->row_type == 4 ? SFRAME_FRE_TYPE_ADDR4 :
		       fn->row_type == 2 ? SFRAME_FRE_TYPE_ADDR2 : SFRAME_FRE_TYPE_ADDR1;
	fde.pctype = fn->pctype;
	fde.type = fn->type;
	fde.signal = fn->signal;
	fde.rep_size = fn->rep_size;
	fde.pauth_key = fn->pauth_key;
	return fde;
}

sframe_decoded_rule rule_of(const sframe_rule &rule)
{
	return { rule.base, rule.deref, rule.reg, rule.offset };
}

void fill_row(sframe_decoded_row *out, const sframe_row &row)
{
	memset(out, 0, sizeof(*out));
	out->start = row.start;
	out->end = row.end;
	out->outermost = row.outermost;
	out->signal = row.signal;
	out->mangled_ra = row.mangled_ra;
	out->cfa = rule_of(row.cfa);
	out->ra = rule_of(row.ra);
	out->fp = rule_of(row.fp);
}

// As the core's search, for an index that is not sorted.
int find_unsorted(const Decoder *dec, uint64_t pc, sframe_fde *fde)
{
	for (uint32_t i = 0; i < dec->section.num_fdes; i++) {
		int status = sframe_fde_get(&dec->section, i, fde, io_of(dec));
		if (status)
			return status;
		if (pc - fde->start < fde->size)
			return SFRAME_OK;
	}
	return SFRAME_NOT_COVERED;
}

int find(const Decoder *dec, uint64_t pc, sframe_fde *fde)
{
	if (dec->section.num_fdes > 1 && !(dec->section.flags & SFRAME_F_FDE_SORTED))
		return find_unsorted(dec, pc, fde);
	return sframe_fde_find(&dec->section, pc, fde, nullptr, io_of(dec));
}

// A cursor is the number of the row above the row's distance from the first one.
constexpr unsigned int CURSOR_SHIFT = 48;
constexpr uint64_t CURSOR_OFFSET = (UINT64_C(1) << CURSOR_SHIFT) - 1;

} // namespace

EXPORT const char *sframe_decode_status_name(int status)
{
	return sframe_status_name(status);
}

EXPORT int sframe_decoder_new(sframe_decoder **out, const void *bytes, size_t size,
			      uint64_t address, unsigned int flags, int *why)
{
	bool func_base = flags & SFRAME_DECODE_FUNC_BASE;
	unsigned int options = SFRAME_PARSE_FOREIGN | (func_base ? SFRAME_PARSE_FUNC_BASE : 0) |
			       (flags & SFRAME_DECODE_UNSORTED ? SFRAME_PARSE_UNSORTED : 0);

	*out = nullptr;
	if (why)
		*why = SFRAME_OK;
	if (flags & ~(SFRAME_DECODE_FUNC_BASE | SFRAME_DECODE_UNSORTED))
		return -EINVAL;
	long map = sframe::sys::call(__NR_mmap, 0, sizeof(Decoder), PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sframe::sys::failed(map))
		return -ENOMEM;
	Decoder *dec = new (reinterpret_cast<void *>(map)) Decoder{};
	dec->bytes = static_cast<const unsigned char *>(bytes);
	dec->size = size;
	// Where the section itself lies does not matter when nothing counts from it.
	dec->address = func_base ? 0 : address;
	int status = sframe_section_parse(&dec->section, dec->address, size,
					  func_base ? address : 0, options, dec);
	if (status) {
		if (why)
			*why = status;
		sframe_decoder_free(dec);
		return -EBADMSG;
	}
	fill_info(dec);
	*out = dec;
	return 0;
}

EXPORT void sframe_decoder_free(sframe_decoder *dec)
{
	if (dec)
		sframe::sys::call(__NR_munmap, reinterpret_cast<long>(dec), sizeof(*dec));
}

EXPORT void sframe_decoder_info(const sframe_decoder *dec, sframe_section_info *info)
{
	*info = dec->info;
}

EXPORT int sframe_decoder_function(const sframe_decoder *dec, uint32_t index, sframe_function *fn)
{
	sframe_fde fde;
	int status = sframe_fde_get(&dec->section, index, &fde, io_of(dec));

	if (!status)
		fill_function(fn, fde);
	return to_errno(status);
}

EXPORT int sframe_decoder_find(const sframe_decoder *dec, uint64_t pc, sframe_function *fn)
{
	sframe_fde fde;
	int status = find(dec, pc, &fde);

	if (!status)
		fill_function(fn, fde);
	return to_errno(status);
}

EXPORT int sframe_decoder_row(const sframe_decoder *dec, const sframe_function *fn,
			      uint64_t *cursor, sframe_decoded_row *out)
{
	uint32_t limit = fn->pctype == SFRAME_FDE_PCTYPE_MASK ? fn->rep_size : fn->size;
	sframe_fde fde = fde_of(fn);
	uint64_t index = *cursor >> CURSOR_SHIFT;
	uint64_t at = fde.row_addr + (*cursor & CURSOR_OFFSET);
	sframe_row row, next;

	// Version 3 marks a function that has no caller by leaving out all rows.
	if (!fn->num_rows) {
		if (*cursor || sframe_row_find(&dec->section, &fde, fn->start, &row, io_of(dec)))
			return 0;
		*cursor = 1;
		fill_row(out, row);
		return 1;
	}
	if (index >= fn->num_rows)
		return 0;
	if (sframe_row_next(&dec->section, &fde, &at, &row, io_of(dec)))
		return -EBADMSG;
	*cursor = (index + 1) << CURSOR_SHIFT | (at - fde.row_addr);
	row.end = limit;
	if (index + 1 < fn->num_rows) {
		if (sframe_row_next(&dec->section, &fde, &at, &next, io_of(dec)) ||
		    next.start < row.start)
			return -EBADMSG;
		if (next.start < limit)
			row.end = next.start;
	}
	if (row.end < row.start)
		row.end = row.start;
	fill_row(out, row);
	return 1;
}

EXPORT int sframe_decoder_lookup(const sframe_decoder *dec, uint64_t pc, sframe_decoded_row *out)
{
	sframe_fde fde;
	sframe_row row;
	int status = find(dec, pc, &fde);

	if (!status)
		status = sframe_row_find(&dec->section, &fde, pc, &row, io_of(dec));
	if (!status)
		fill_row(out, row);
	return to_errno(status);
}
