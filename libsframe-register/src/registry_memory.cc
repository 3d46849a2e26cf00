// SPDX-License-Identifier: MIT
//
// The registry's memory: one reservation of address space, made accessible
// piece by piece. Reserved pages cost nothing and do not count as committed;
// what was made accessible stays so, which is why a reader that holds a stale
// reference never faults.
#include "registry_state.h"
#include "sys.h"

#include <sys/mman.h>

namespace sframe {

namespace {

constexpr uint64_t huge_page = 2 << 20;

// Node and slot are recycled only after so many others: by then a reader that
// was under way has finished, unless it was preempted (it starts over then).
constexpr uint32_t node_quarantine = 256;
constexpr uint32_t slot_quarantine = 64;

// As many as slots are in memory, and once more against collisions.
constexpr uint32_t hints_per_slot = 2;

uint32_t *arena_next(Arena *arena, uint32_t index)
{
	return (uint32_t *)(arena->next_base + (uint64_t)index * arena->next_stride);
}

int make_accessible(uint64_t address, uint64_t size)
{
	if (sys::failed(sys::call(__NR_mprotect, (long)address, (long)size, PROT_READ | PROT_WRITE)))
		return -ENOMEM;
	// Among 100,000 ranges a lookup would miss the TLB at every level.
	if (size >= huge_page)
		sys::call(__NR_madvise, (long)address, (long)size, MADV_HUGEPAGE);
	return 0;
}

uint32_t arena_available(const Arena *arena)
{
	const uint32_t waiting = arena->queued > arena->quarantine ?
		arena->queued - arena->quarantine : 0;

	return waiting + (arena->committed - arena->fresh);
}

// At the end of the address space the quarantine gives way.
int arena_prepare(Arena *arena, uint32_t wanted)
{
	while (arena_available(arena) < wanted) {
		const uint64_t page = 4096 / arena->stride;
		uint64_t grown = arena->committed ? arena->committed * UINT64_C(2) : 4 * page;

		if (arena->committed == arena->capacity)
			return arena->queued + (arena->committed - arena->fresh) >= wanted ? 0 : -ENOSPC;
		if (grown > arena->capacity)
			grown = arena->capacity;
		if (make_accessible(arena->base + (uint64_t)arena->committed * arena->stride,
				    (grown - arena->committed) * arena->stride))
			return -ENOMEM;
		arena->committed = (uint32_t)grown;
	}
	return 0;
}

uint32_t arena_take(Arena *arena)
{
	if (arena->queued > arena->quarantine || arena->fresh == arena->committed) {
		const uint32_t index = arena->head;

		arena->head = *arena_next(arena, index);
		arena->queued--;
		return index;
	}
	const uint32_t index = arena->fresh;
	release(&arena->fresh, index + 1);
	return index;
}

int pool_prepare(RecordPool *pool, unsigned int order)
{
	const uint64_t size = (uint64_t)record_unit << order;

	if (pool->free_list[order])
		return 0;
	while (pool->committed < pool->fresh + size) {
		uint64_t grown = pool->committed ? pool->committed * 2 : 16384;

		if (pool->committed == pool->capacity)
			return -ENOSPC;
		if (grown > pool->capacity)
			grown = pool->capacity;
		if (make_accessible(pool->base + pool->committed, grown - pool->committed))
			return -ENOMEM;
		pool->committed = grown;
	}
	return 0;
}

unsigned int record_order(size_t length)
{
	unsigned int order = 0;

	while (((size_t)record_unit << order) < sizeof(Record) + length + 1)
		order++;
	return order;
}

// Bytes of address space for so many ranges; fills in the arenas if @at is not 0.
uint64_t lay_out(Control *c, uint64_t at, uint64_t ranges)
{
	const uint64_t start = at;
	auto arena = [&](Arena *a, uint64_t capacity, uint32_t stride, uint32_t quarantine) {
		const uint64_t size = (capacity * stride + huge_page - 1) & ~(huge_page - 1);

		if (start) {
			a->base = at;
			a->stride = stride;
			a->capacity = (uint32_t)(size / stride < index_limit ? size / stride : index_limit);
			a->quarantine = quarantine;
			a->head = a->tail = none;
		}
		at += size;
	};

	// Two trees, a quarter full at worst, with their upper levels.
	arena(&c->node_arena, ranges * 2 / min_fill * 8 / 7 + 4096, sizeof(Node), node_quarantine);
	arena(&c->slot_arena, ranges + slot_quarantine, sizeof(Slot), slot_quarantine);
	arena(&c->link_arena, ranges + slot_quarantine, sizeof(Link), 0);
	arena(&c->hint_arena, hints_per_slot * (ranges + slot_quarantine), sizeof(uint64_t), 0);
	const uint64_t records = (ranges * 256 + huge_page - 1) & ~(huge_page - 1);
	if (start) {
		c->record_pool.base = at;
		c->record_pool.capacity = records;
		c->record_pool.fresh = record_unit;	// 0 is no record
	}
	return at + records - start;
}

} // namespace

int memory_reserve(Control *c)
{
	if (c->nodes)
		return 0;
	// Under a tight limit of address space or of locked memory: fewer ranges.
	for (uint64_t ranges = max_ranges; ranges >= 1000; ranges /= 4) {
		const uint64_t size = lay_out(c, 0, ranges) + huge_page;
		const long p = sys::call(__NR_mmap, 0, (long)size, PROT_NONE,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (sys::failed(p))
			continue;
		lay_out(c, ((uint64_t)p + huge_page - 1) & ~(huge_page - 1), ranges);
		c->node_arena.next_base = c->node_arena.base + offsetof(Node, next);
		c->node_arena.next_stride = sizeof(Node);
		c->slot_arena.next_base = c->link_arena.base + offsetof(Link, next);
		c->slot_arena.next_stride = sizeof(Link);
		c->max_ranges = (uint32_t)ranges;
		release(&c->slots, c->slot_arena.base);
		release(&c->records, c->record_pool.base);
		release(&c->nodes, c->node_arena.base);
		return 0;
	}
	return -ENOMEM;
}

// Along with the slots. Without memory for more the old ones serve.
static void grow_hints(Control *c)
{
	Arena *arena = &c->hint_arena;
	uint32_t wanted = 512;

	while (wanted < hints_per_slot * c->slot_arena.committed && wanted * 2 <= arena->capacity)
		wanted *= 2;
	if (arena->committed >= wanted ||
	    make_accessible(arena->base + (uint64_t)arena->committed * sizeof(uint64_t),
			    (uint64_t)(wanted - arena->committed) * sizeof(uint64_t)))
		return;
	arena->committed = wanted;
	release(&c->hints, arena->base);
	release(&c->hint_count, (uint64_t)wanted);
}

int memory_prepare(Control *c, uint32_t nodes, uint32_t slots, size_t path_length)
{
	int err = arena_prepare(&c->node_arena, nodes);

	if (!err && slots) {
		err = arena_prepare(&c->slot_arena, slots);
		// Links run along with the slots.
		while (!err && c->link_arena.committed < c->slot_arena.committed) {
			c->link_arena.fresh = c->link_arena.committed;
			err = arena_prepare(&c->link_arena, 1);
		}
	}
	if (!err && slots)
		grow_hints(c);
	if (!err && path_length)
		err = pool_prepare(&c->record_pool, record_order(path_length));
	return err;
}

Node *node_take(Control *c)
{
	const uint32_t index = arena_take(&c->node_arena);
	Node *node = (Node *)c->nodes + index;

	release(&node->self, ++c->serial << index_bits | index);
	return node;
}

void arena_requeue(Arena *arena, uint32_t index)
{
	*arena_next(arena, index) = none;
	if (arena->queued++)
		*arena_next(arena, arena->tail) = index;
	else
		arena->head = index;
	arena->tail = index;
}

void node_retire(Control *c, Node *node)
{
	arena_requeue(&c->node_arena, (uint32_t)(node - (Node *)c->nodes));
}

Slot *slot_take(Control *c)
{
	const uint32_t index = arena_take(&c->slot_arena);
	Slot *slot = (Slot *)c->slots + index;

	release(&slot->id, ++c->serial << index_bits | index);
	return slot;
}

void slot_retire(Control *c, Slot *slot)
{
	// Nobody may take its path for its own any more.
	release(&slot->id, UINT64_C(0));
	if (slot->record)
		record_retire(c, slot->record);
	arena_requeue(&c->slot_arena, (uint32_t)(slot - (Slot *)c->slots));
}

uint32_t record_take(Control *c, const char *path, size_t length)
{
	RecordPool *pool = &c->record_pool;
	const unsigned int order = record_order(length);
	uint32_t at = pool->free_list[order];
	Record *record;

	if (at) {
		record = record_at(c, at);
		pool->free_list[order] = record->next;
	} else {
		at = (uint32_t)(pool->fresh / record_unit);
		record = record_at(c, at);
		// Blocks must be walkable whenever a fork takes its snapshot.
		release(&record->order, (uint16_t)order);
		release(&pool->fresh, pool->fresh + ((uint64_t)record_unit << order));
	}
	release(&record->length, (uint16_t)length);
	for (size_t i = 0; i <= length; i += 8) {
		uint64_t word = 0;

		__builtin_memcpy(&word, path + i, length - i < 8 ? length - i : 8);
		release((uint64_t *)(record->path + i), word);
	}
	return at;
}

void record_retire(Control *c, uint32_t at)
{
	Record *record = record_at(c, at);

	record->next = c->record_pool.free_list[record->order];
	c->record_pool.free_list[record->order] = at;
}

} // namespace sframe
