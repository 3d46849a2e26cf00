// SPDX-License-Identifier: MIT
//
// The core over memory that a test lays out: it counts reads, refuses those
// outside, and can change bytes behind the reader's back.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace core_test {

struct Memory {
	struct Region {
		uint64_t address;
		std::string bytes;
	};
	std::vector<Region> regions;
	std::map<unsigned int, uint64_t> registers;	// of the topmost frame
	uint64_t reads = 0;
	std::function<void(Memory &)> after_read;

	Memory &add(uint64_t address, std::string bytes)
	{
		regions.push_back({ address, std::move(bytes) });
		return *this;
	}
	Memory &words(uint64_t address, std::initializer_list<uint64_t> values)
	{
		return add(address, { reinterpret_cast<const char *>(values.begin()),
				      values.size() * sizeof(uint64_t) });
	}
	int read(void *to, uint64_t address, uint64_t size)
	{
		reads++;
		for (const Region &r : regions) {
			const uint64_t at = address - r.address;

			if (at > r.bytes.size() || size > r.bytes.size() - at)
				continue;
			memcpy(to, r.bytes.data() + at, size);
			if (after_read)
				after_read(*this);
			return 0;
		}
		return -1;
	}
	int reg(unsigned int number, uint64_t *value) const
	{
		const auto found = registers.find(number);

		if (found == registers.end())
			return -1;
		*value = found->second;
		return 0;
	}
};

} // namespace core_test

#define SFRAME_CORE_FOREIGN 1
#define SFRAME_CORE_READ(io, to, address, size) \
	static_cast<core_test::Memory *>(io)->read(to, address, size)
#define SFRAME_CORE_REG(io, number, value) \
	static_cast<core_test::Memory *>(io)->reg(number, value)
#include "sframe_core.h"
