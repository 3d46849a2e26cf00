// SPDX-License-Identifier: MIT
//
// Small valid sections.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "sframe_format.h"

#if defined(__SANITIZE_THREAD__)
#define UNDER_THREAD_SANITIZER 1
#elif defined(__SANITIZE_ADDRESS__)
#define UNDER_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_THREAD_SANITIZER 1
#elif __has_feature(address_sanitizer)
#define UNDER_ADDRESS_SANITIZER 1
#endif
#endif

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
