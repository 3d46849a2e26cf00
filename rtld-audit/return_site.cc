// SPDX-License-Identifier: MIT
#include "return_site.h"

#include <cstddef>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include "link_map.h"

namespace sframe {

namespace {

constexpr unsigned char kRet = 0xc3;

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

// How many bytes of the function, from its start, the CIE's own rules hold for.
uint32_t first_row(const unsigned char *fde, uint32_t *size)
{
	uint32_t length, cie, delta = 0;

	memcpy(&length, fde, sizeof(length));
	memcpy(&cie, fde + 4, sizeof(cie));
	memcpy(size, fde + 12, sizeof(*size));
	if (length < 13 || length >= 0xfffffff0 || !cie || fde[16] != 0 ||
	    !plain_cie(fde + 4 - cie))
		return 0;
	const unsigned char *at = fde + 17, *end = fde + 4 + length;
	while (at < end && *at == 0)	// DW_CFA_nop
		at++;
	if (at == end)
		return *size;
	if (*at >> 6 == 1) {		// DW_CFA_advance_loc
		delta = *at & 0x3f;
	} else if (*at == 2 && end - at > 1) {
		delta = at[1];
	} else if (*at == 3 && end - at > 2) {
		uint16_t wide;

		memcpy(&wide, at + 1, sizeof(wide));
		delta = wide;
	}
	return delta < *size ? delta : *size;
}

uint64_t find_ret(uint64_t start, uint64_t end)
{
	for (uint64_t at = start; at < end; at++)
		if (*reinterpret_cast<const unsigned char *>(at) == kRet)
			return at;
	return 0;
}

// Unwinders look up the address before a return address: it must be in the
// function and in its first row, the ret itself may be the next byte.
uint64_t covered_site(const Table &table)
{
	for (uint32_t i = 0; i < table.count; i++) {
		const uint64_t function = table.base + static_cast<int64_t>(table.entry[i].function);
		const auto *fde = reinterpret_cast<const unsigned char *>(
			table.base + static_cast<int64_t>(table.entry[i].fde));
		uint32_t size = 0;
		const uint32_t row = first_row(fde, &size);
		const uint64_t end = function + (row < size ? row + 1 : size);

		if (row > 1)
			if (const uint64_t site = find_ret(function + 1, end))
				return site;
	}
	return 0;
}

// Between the functions that .eh_frame describes.
uint64_t uncovered_site(const Table &table, const Elf64_Phdr &text, uint64_t bias)
{
	const uint64_t end = bias + text.p_vaddr + text.p_filesz;
	uint64_t at = bias + text.p_vaddr;

	for (uint32_t i = 0; i < table.count && at < end; i++) {
		const uint64_t function = table.base + static_cast<int64_t>(table.entry[i].function);
		const auto *fde = reinterpret_cast<const unsigned char *>(
			table.base + static_cast<int64_t>(table.entry[i].fde));
		uint32_t size;

		memcpy(&size, fde + 12, sizeof(size));
		if (function >= end || function + size <= at)
			continue;
		// Not the first byte: the one before it may belong to a function.
		if (const uint64_t site = find_ret(at + 1, function))
			return site;
		at = function + size;
	}
	return find_ret(at + 1, end);
}

ReturnSite search(const struct link_map &map, uint64_t eh_frame_hdr, uint64_t *site)
{
	const auto *phdr = reinterpret_cast<const Elf64_Phdr *>(getauxval(AT_PHDR));
	ReturnSite found = ReturnSite::kNone;
	Headers headers;
	Table table;

	if (eh_frame_hdr)
		table = table_at(eh_frame_hdr);
	*site = covered_site(table);
	if (*site)
		return ReturnSite::kCovered;
	if (!find_headers(map, phdr, getauxval(AT_PHNUM), &headers))
		return ReturnSite::kNone;
	for (size_t i = 0; i < headers.phnum && found == ReturnSite::kNone; i++) {
		const Elf64_Phdr &ph = headers.phdr[i];

		if (ph.p_type != PT_LOAD || !(ph.p_flags & PF_X) || !(ph.p_flags & PF_R))
			continue;
		*site = uncovered_site(table, ph, map.l_addr);
		if (*site)
			found = ReturnSite::kUncovered;
	}
	release_headers(headers);
	return found;
}

} // namespace

ReturnSite find_return_site(uint64_t address, uint64_t *site)
{
	struct dl_find_object object;

	if (_dl_find_object(reinterpret_cast<void *>(address - 1), &object) != 0) {
		const uint64_t entry = getauxval(AT_ENTRY);

		if (_dl_find_object(reinterpret_cast<void *>(entry), &object) != 0)
			return ReturnSite::kNone;
	}
	return search(*object.dlfo_link_map, reinterpret_cast<uint64_t>(object.dlfo_eh_frame),
		      site);
}

} // namespace sframe
