// SPDX-License-Identifier: MIT
//
// A hostile peer: arbitrary bytes as another process's segment, or as its
// memory. The first byte chooses which, and whether the bytes change between
// two reads.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "peer.h"
#include "registry_state.h"

namespace {

constexpr uint64_t memory_base = 0x10000;

struct Bytes {
	const uint8_t *data;
	size_t size;
	uint64_t base;
	uint8_t change;		// flip a bit in every n-th read
	unsigned int reads;
};

int read_bytes(void *io, uint64_t at, void *to, size_t size)
{
	auto *bytes = static_cast<Bytes *>(io);

	if (at < bytes->base || at - bytes->base > bytes->size ||
	    bytes->size - (at - bytes->base) < size)
		return -1;
	memcpy(to, bytes->data + (at - bytes->base), size);
	if (bytes->change && size && ++bytes->reads % bytes->change == 0)
		static_cast<uint8_t *>(to)[bytes->reads % size] ^= 1;
	return 0;
}

// What every consumer relies on.
void check(const sframe::PeerRanges &ranges)
{
	uint64_t end = 0;

	for (uint64_t i = 0; i < ranges.count; i++) {
		const auto &item = ranges.item[i];

		if (item.range.text_start < end || item.range.text_end <= item.range.text_start ||
		    item.range.build_id_size > sizeof(item.range.build_id) ||
		    item.range.source >= SFRAME_SOURCE_COUNT || item.path >= ranges.text_size ||
		    strlen(ranges.text + item.path) > sframe::max_path)
			__builtin_trap();
		end = item.range.text_end;
	}
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	const bool memory = data[0] & 1;
	Bytes bytes = { data + 8, size < 8 ? 0 : size - 8, memory ? memory_base : 0, data[1], 0 };
	sframe::PeerSummary summary;
	sframe::PeerRanges ranges;
	const sframe::PeerBytes source = { read_bytes, &bytes };

	const int err = memory ? sframe::peer_read_index(source, memory_base, &summary, &ranges) :
		sframe::peer_read_segment(source, &summary, &ranges);
	if (!err)
		check(ranges);
	return 0;
}
