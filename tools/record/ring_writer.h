// SPDX-License-Identifier: MIT
//
// The writer's side of the sample ring: what a signal handler may do. No lock,
// no allocation, no libc.
#pragma once

#include <cstddef>
#include "ring.h"

namespace sframe::record {

// A writer's view. Data is mapped twice in a row, so that a record is
// contiguous wherever it begins.
struct RingWriter {
	ring_header *header = nullptr;
	uint64_t *stamps = nullptr;
	unsigned char *data = nullptr;
	uint32_t slots = 0;
};

struct Reservation {
	uint64_t index;
	uint32_t slots;
	ring_record *record;	// nullptr: the ring is full
};

inline void ring_count(uint64_t *counter, uint64_t n = 1)
{
	__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

inline uint32_t ring_slots_for(size_t bytes)
{
	return static_cast<uint32_t>((bytes + RING_SLOT_SIZE - 1) / RING_SLOT_SIZE);
}

inline Reservation ring_reserve(const RingWriter &ring, size_t bytes)
{
	const uint32_t n = ring_slots_for(bytes);
	uint64_t head = __atomic_load_n(&ring.header->head, __ATOMIC_RELAXED);

	do {
		const uint64_t tail = __atomic_load_n(&ring.header->tail, __ATOMIC_ACQUIRE);
		if (head + n - tail > ring.slots)
			return { 0, 0, nullptr };
	} while (!__atomic_compare_exchange_n(&ring.header->head, &head, head + n, true,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	const uint64_t place = head & (ring.slots - 1);
	__atomic_store_n(&ring.stamps[place], RING_RESERVED(head), __ATOMIC_RELAXED);
	return { head, n, reinterpret_cast<ring_record *>(ring.data + place * RING_SLOT_SIZE) };
}

// Fills in record->size and check. False: the reader gave the record up before.
inline bool ring_commit(const RingWriter &ring, const Reservation &r, uint32_t kind, uint32_t image,
			size_t bytes)
{
	uint32_t n = ring_slots_for(bytes);

	r.record->size = static_cast<uint32_t>(bytes);
	r.record->kind = kind;
	r.record->image = image;
	r.record->check = ring_checksum(r.record, r.record->size);

	// What was not needed goes back, unless somebody reserved behind it.
	uint64_t end = r.index + r.slots;
	if (n < r.slots && !__atomic_compare_exchange_n(&ring.header->head, &end, r.index + n, false,
							__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		n = r.slots;
	uint64_t mark = RING_RESERVED(r.index);
	return __atomic_compare_exchange_n(&ring.stamps[r.index & (ring.slots - 1)], &mark,
					   RING_COMMITTED(r.index, n), false, __ATOMIC_RELEASE,
					   __ATOMIC_RELAXED);
}

} // namespace sframe::record
