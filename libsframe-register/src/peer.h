// SPDX-License-Identifier: MIT
//
// Reading a registry that somebody else writes and nobody vouches for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sframe/register.h>
#include <sframe/registry.h>

namespace sframe {

// Where a peer's bytes come from. @read copies exactly @size bytes: 0, or not.
// It may never fault: pread(), process_vm_readv(), or checked memory in tests.
struct PeerBytes {
	int (*read)(void *io, uint64_t at, void *to, size_t size);
	void *io;
};

// Ranges as they are collected: growing memory without a heap.
struct PeerRanges {
	struct Item {
		sframe_range range;
		uint64_t path;		// offset in text
	};
	Item *item = nullptr;
	uint64_t count = 0, capacity = 0;
	char *text = nullptr;
	uint64_t text_size = 0, text_capacity = 0;

	PeerRanges() = default;
	~PeerRanges();
	PeerRanges(const PeerRanges &) = delete;
	PeerRanges &operator=(const PeerRanges &) = delete;

	int add(const sframe_range &range, const char *path, size_t length);
	// By address; of two that overlap, seen at different moments, the newer stays.
	void settle();
};

struct PeerSummary {
	int backend;
	sframe_stats stats;
};

// A segment (export.h) and a process's own index (registry_state.h; the control
// page is at @control). 0, -EBADMSG, -EBUSY, -ENOMEM.
int peer_read_segment(const PeerBytes &bytes, PeerSummary *summary, PeerRanges *ranges);
int peer_read_index(const PeerBytes &bytes, uint64_t control, PeerSummary *summary,
		    PeerRanges *ranges);

} // namespace sframe
