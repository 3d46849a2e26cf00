// SPDX-License-Identifier: MIT
//
// Things to register, for tests of the library's inside: sections, and
// executable text that is never run.
#pragma once

#include <cstdint>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include <sframe/abi.h>
#include "registry.h"
#include "section_bytes.h"

// A test contains the library as an archive, which does nothing at exit.
inline const struct LeaveNothingBehind {
	~LeaveNothingBehind() { sframe::registry_exit(); }
} leave_nothing_behind;

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
