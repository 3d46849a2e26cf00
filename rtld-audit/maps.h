// SPDX-License-Identifier: MIT
//
// Reading /proc/self/maps without libc.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sframe {

struct Mapping {
	uint64_t start, end, offset, inode;
	uint32_t major, minor;
	bool executable;
};

class MapsReader {
public:
	MapsReader();
	~MapsReader();
	MapsReader(const MapsReader &) = delete;
	MapsReader &operator=(const MapsReader &) = delete;

	// The next mapping in address order; false at the end or where there is no /proc.
	bool next(Mapping *mapping);

private:
	int get();	// the next byte, or -1
	uint64_t number(int base, int *stop);

	int fd_;
	size_t at_ = 0, have_ = 0;
	char buffer_[4096];
};

} // namespace sframe
