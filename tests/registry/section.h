// SPDX-License-Identifier: MIT
//
// Things to register: small valid sections, and executable text that is never
// run.
#pragma once

#include <cstdint>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include <sframe/abi.h>
#include "registry.h"
#include "sframe_format.h"

// A test contains the library as an archive, which does nothing at exit.
inline const struct LeaveNothingBehind {
	~LeaveNothingBehind() { sframe::registry_exit(); }
} leave_nothing_behind;

// A version 3 section: @functions of 16 bytes each from offset 0 on, one row each.
inline std::vector<uint8_t> make_section(uint32_t functions, uint8_t version = 3, uint8_t flags = 1)
{
	const uint32_t rows = functions * 8;
	std::vector<uint8_t> bytes(SFRAME_HEADER_SIZE + functions * SFRAME_FDE_V3_SIZE + rows);
	sframe_header header = {};

	header.magic = SFRAME_MAGIC;
	header.version = version;
	header.flags = flags;
	header.abi_arch = SFRAME_ABI_AMD64_ENDIAN_LITTLE;
	header.cfa_fixed_ra_offset = -8;
	header.num_fdes = header.num_fres = functions;
	header.fre_len = rows;
	header.freoff = functions * SFRAME_FDE_V3_SIZE;
	memcpy(bytes.data(), &header, sizeof(header));
	for (uint32_t i = 0; i < functions; i++) {
		const sframe_fde_v3 fde = { i * 16, 16, i * 8 };
		const uint8_t attributes_and_row[8] = { 1, 0, 0, 0, 0, /* row: */ 0, 3, 8 };

		memcpy(&bytes[SFRAME_HEADER_SIZE + i * SFRAME_FDE_V3_SIZE], &fde, sizeof(fde));
		memcpy(&bytes[SFRAME_HEADER_SIZE + functions * SFRAME_FDE_V3_SIZE + i * 8],
		       attributes_and_row, 8);
	}
	return bytes;
}

// A structure of the ABI with its size filled in.
template <typename T> T sized(int off = 0)
{
	T value = {};

	value.size = sizeof(value) + off;
	return value;
}

// Executable pages that cost nothing.
class Text {
public:
	explicit Text(size_t bytes) : size(bytes)
	{
		at = (uint64_t)mmap(nullptr, bytes, PROT_READ | PROT_EXEC,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	}
	~Text() { munmap((void *)at, size); }
	Text(const Text &) = delete;
	Text &operator=(const Text &) = delete;

	uint64_t at;
	size_t size;
};

inline sframe_setup setup_of(const std::vector<uint8_t> &section, uint64_t text, uint64_t size,
			     uint64_t flags = 0, uint64_t func_base = 0)
{
	return { (uint64_t)section.data(), section.size(), text, size, flags, func_base };
}
