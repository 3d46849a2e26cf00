// SPDX-License-Identifier: MIT
//
// From the linker's description of an object to its program headers.
//
// struct link_map as it is public says where an object is relocated to and
// where its dynamic section is, no more. The headers are found from these two,
// and whatever is found must name that very dynamic section, or it belongs to
// somebody else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <elf.h>
#include <link.h>

namespace sframe {

struct Headers {
	const Elf64_Phdr *phdr = nullptr;
	size_t phnum = 0;
	void *buffer = nullptr;		// of headers that had to be read from the file
	size_t buffer_size = 0;
};

// True if [address, address + size) can be read. Never faults, and uses no
// system call that a sandbox could object to.
bool readable(uint64_t address, uint64_t size);

// Headers of an object: at its relocation address, or at @hint (AT_PHDR, for
// the main program), or wherever its file's first page is mapped, or in the
// file. False if nothing matches. Call with the linker's lock held.
bool find_headers(const struct link_map &map, const Elf64_Phdr *hint, size_t hint_count,
		  Headers *headers);
void release_headers(Headers &headers);

} // namespace sframe
