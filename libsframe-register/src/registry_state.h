// SPDX-License-Identifier: MIT
//
// What the registry consists of in memory. Other copies of the library in this
// process, and tools in other processes, read these structures: their layout
// is part of `layout_version`.
//
// Rules of access, which make the index safe without locks:
//  - Words that readers may see are stored with release and loaded with
//    acquire (free on x86-64, and what TSan understands).
//  - A node or slot that is taken into use gets its new name (self, id) before
//    anything else of it changes. A reader uses what it read only if the name
//    is still the one it came for.
//  - Everything else belongs to the holder of the writers' lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include "core.h"
#include <sframe/register.h>

namespace sframe {

inline constexpr uint64_t registry_magic = 0x31474552454d5246;	// "FRMEREG1"
inline constexpr uint32_t layout_version = 1;

// A reference is a serial number above an index, and never used twice.
inline constexpr unsigned int index_bits = 20;
inline constexpr uint32_t index_limit = 1u << index_bits;
inline uint32_t index_of(uint64_t ref) { return (uint32_t)ref & (index_limit - 1); }

inline constexpr uint32_t max_ranges = 1'000'000;
inline constexpr uint32_t none = ~0u;

template <typename T> inline T acquire(const T *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
template <typename T> inline T relaxed(const T *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
template <typename T> inline void release(T *p, T value)
{
	__atomic_store_n(p, value, __ATOMIC_RELEASE);
}

// A node of the B+ tree. In a leaf (level 0) keys are the ranges' start
// addresses and children their slots' ids; above, keys are the smallest key of
// each child, exactly.
inline constexpr uint32_t fan_out = 31;
inline constexpr uint32_t min_fill = 8;
inline constexpr uint32_t max_height = 8;	// min_fill^7 > 2 * max_ranges

struct Node {
	uint64_t self;
	uint32_t info;		// count | level << 16
	uint32_t next;		// writer's: queue of retired nodes
	uint64_t key[fan_out];
	uint64_t child[fan_out];
};
static_assert(sizeof(Node) == 512);

inline uint32_t node_count(uint32_t info) { return info & 0xffff; }
inline uint32_t node_level(uint32_t info) { return info >> 16; }

// One registered range, two cache lines. Never changed while it is reachable.
struct Slot {
	uint64_t id;		// its reference; 0: no longer live
	uint64_t text_start, text_end;
	sframe_section section;
	uint64_t sframe_size;
	uint64_t load_bias;
	uint32_t flags;		// SFRAME_GROWABLE, SFRAME_FUNC_BASE
	uint8_t source;
	uint8_t build_id_size;
	uint16_t reserved;
	uint32_t record;	// of its path, or 0
	unsigned char build_id[20];
};
static_assert(sizeof(Slot) == 128);
inline constexpr unsigned int slot_words = sizeof(Slot) / 8;

// Writer's: the ranges of one section are chained, so that all can be dropped.
struct Link {
	uint32_t next;		// also: queue of retired slots
	uint32_t prev;
};

// A path, in a block of 64 << order bytes. Records are named by offset / 64.
struct Record {
	uint16_t order;
	uint16_t length;	// of the path, without NUL
	uint32_t next;		// writer's: free list, or the repairer's mark
	char path[];
};
inline constexpr unsigned int record_unit = 64;
inline constexpr unsigned int record_orders = 8;	// up to 8192 bytes: PATH_MAX fits
inline constexpr unsigned int max_path = 4095;

// Elements of one size in reserved address space, made accessible as needed,
// recycled first in, first out once enough of them wait.
struct Arena {
	uint64_t base;
	uint32_t stride;
	uint32_t capacity;
	uint32_t committed;
	uint32_t fresh;		// elements from here on were never used
	uint64_t next_base;	// where element i's queue link is: next_base + i * next_stride
	uint32_t next_stride;
	uint32_t quarantine;
	uint32_t head, tail, queued;
	uint32_t reserved;
};

struct RecordPool {
	uint64_t base;
	uint64_t capacity, committed, fresh;	// bytes
	uint32_t free_list[record_orders];	// records, 0 ends
};

// Statistics, in the order of struct sframe_stats.
enum class Stat : uint32_t {
	registered, unregistered, live, objects_native, objects_synthesized, objects_refused,
	cache_hits, cache_misses, cache_errors, synth_uncovered, lookup_retries, lookup_failures,
	export_errors, count,
};
inline constexpr unsigned int stat_count = (unsigned int)Stat::count;
static_assert(sizeof(sframe_stats) == sizeof(size_t) + stat_count * sizeof(uint64_t));

// The page that the kernel wipes on fork: what must not survive into a child.
inline constexpr unsigned int reader_stripes = 8;

struct Guard {
	uint32_t lock;		// 0 free, 1 held, 2 held and waited for
	uint32_t alive;		// 0: wiped by a fork since the last writer
	uint32_t pid;		// where the kernel cannot wipe: whose page this is
	uint32_t epoch;
	struct alignas(64) {
		int32_t inside[2];	// readers, by the parity of the epoch they came in
	} stripe[reader_stripes];
};

inline constexpr unsigned int export_chunks_max = 40;

// The writer's view of the segment that mirrors the registry (export.cc).
inline constexpr unsigned int export_chunks = 18;	// of each kind: 64 entries << 17

struct ExportState {
	uint64_t header;	// address, or 0: none
	uint64_t inode;
	uint64_t sequence;	// of the last entry written
	uint64_t file_size;
	uint64_t retry_at;	// registrations; then try again
	uint32_t failures;
	uint32_t pid;
	uint32_t count[2];	// chunks of each kind: entries, strings
	uint64_t address[2][export_chunks];
};

// What readers remember for each other: by a hash of the PC's page, the id of
// the slot that covered it. Only a hint: a slot that still has that id and
// covers the PC is the answer, anything else is looked up. So nobody maintains
// it, and neither a stale nor a torn world can come of it.
inline constexpr unsigned int hint_page_bits = 12;
inline uint64_t hint_index(uint64_t pc, uint64_t count)
{
	return ((pc >> hint_page_bits) * UINT64_C(0x9e3779b97f4a7c15) >> 24) & (count - 1);
}

enum : uint32_t { control_candidate = 1, control_live = 2, control_withdrawn = 3 };

// The registry. Found by name in /proc/self/maps; readers need the first lines.
struct Control {
	uint64_t magic;
	uint32_t layout;
	uint32_t size;
	uint32_t state;
	uint32_t owner;		// thread that made it, while a candidate
	uint32_t owner_process;
	int32_t backend;	// enum sframe_backend; 0: not chosen yet; or -errno
	uint64_t features;
	uint64_t nodes, slots, records;	// bases of the arenas
	uint64_t hints;		// base of the hints, or 0
	uint64_t hint_count;	// a power of two

	alignas(64) uint64_t root;	// reference of the root node, or 0
	uint64_t generation;

	alignas(64) uint64_t stats[stat_count];

	alignas(64) uint64_t guard;	// address of the Guard
	uint32_t wipes;		// the kernel wipes it
	uint32_t writing;	// an update is under way
	uint32_t exiting;
	uint32_t register_nr, unregister_nr;	// of the kernel backend
	uint32_t live;
	uint32_t max_ranges;	// what the reservation has room for
	uint32_t reserved;
	uint64_t serial;	// of the last reference
	uint64_t sections;	// root of the tree by section address (writer's)
	Arena node_arena, slot_arena, link_arena, hint_arena;
	RecordPool record_pool;
	ExportState mirror;
};
static_assert(sizeof(Control) <= 4096);

inline Node *node_at(const Control *c, uint64_t ref)
{
	return (Node *)c->nodes + index_of(ref);
}
inline Slot *slot_at(const Control *c, uint64_t ref)
{
	return (Slot *)c->slots + index_of(ref);
}
inline Record *record_at(const Control *c, uint32_t record)
{
	return (Record *)(c->records + (uint64_t)record * record_unit);
}
inline Link *link_at(const Control *c, uint32_t index)
{
	return (Link *)c->link_arena.base + index;
}
inline Guard *guard_of(const Control *c) { return (Guard *)c->guard; }

// registry_attach.cc: this process's registry; with @create made if there is none.
Control *registry_control(bool create);
// Does a line of /proc/PID/maps look like a control page?
struct Mapping;
bool registry_mapping(const Mapping &mapping);

// registry_memory.cc. Writer's. Reserve the arenas: 0, -ENOMEM.
int memory_reserve(Control *c);
// Make sure that so many can be taken: 0, -ENOMEM, -ENOSPC.
int memory_prepare(Control *c, uint32_t nodes, uint32_t slots, size_t path_length);
Node *node_take(Control *c);
void node_retire(Control *c, Node *node);
Slot *slot_take(Control *c);
void slot_retire(Control *c, Slot *slot);
uint32_t record_take(Control *c, const char *path, size_t length);
void record_retire(Control *c, uint32_t record);
void arena_requeue(Arena *arena, uint32_t index);

// registry_tree.cc. Writer's; nodes must have been prepared (tree_nodes_needed).
inline constexpr uint32_t tree_nodes_needed = 2 * max_height + 2;
enum class Tree { ranges, sections };
// Insert @key, or give it another value.
void tree_put(Control *c, Tree tree, uint64_t key, uint64_t value);
void tree_erase(Control *c, Tree tree, uint64_t key);
// The last key at or below @key: its value, or 0 and *found untouched.
uint64_t tree_floor(const Control *c, Tree tree, uint64_t key, uint64_t *found);
// The first key above @key.
uint64_t tree_above(const Control *c, Tree tree, uint64_t key, uint64_t *found);

// registry.cc. Writer's: put a slot among those of its section, or take it out.
void section_link(Control *c, const Slot *slot);
void section_unlink(Control *c, const Slot *slot);

// registry_lock.cc. Writers are serialised; signals wait meanwhile, so that no
// handler of this thread finds the lock held. Repairs what a fork left.
class WriterLock {
public:
	explicit WriterLock(Control *c);
	~WriterLock();
	WriterLock(const WriterLock &) = delete;
	WriterLock &operator=(const WriterLock &) = delete;

private:
	Control *control;
	uint64_t mask;
};
// After something left the index: wait until readers that may have it are done.
void registry_wait_for_readers(Control *c);

// registry_repair.cc: make free lists and the section tree anew from what the
// ranges' tree reaches.
void registry_repair(Control *c);

// registry_check.cc. Copies and checks what the program handed in: 0, -EINVAL,
// -E2BIG, -EFAULT.
int setup_copy(const sframe_setup *user, size_t size, sframe_setup *out);
int setup_check(const sframe_setup &setup, bool executable, sframe_section *section);

} // namespace sframe
