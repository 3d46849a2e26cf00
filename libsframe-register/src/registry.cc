// SPDX-License-Identifier: MIT
//
// Adding, removing and finding ranges, and the public calls that do so.
#include "registry.h"

#include "backend.h"
#include "export.h"
#include "registry_state.h"
#include "stats.h"

#include <cerrno>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace sframe {

namespace {

// A lookup starts over when what it reads is being recycled: only if it was
// held up for as long as hundreds of changes take. So often in a row means that
// the machine does not let it run.
constexpr int max_tries = 64;

enum class Walk { found, nothing, again };

// How many of the node's keys are at or below @key. Two rounds of independent
// comparisons, every fourth key first: a binary search would be a chain of
// five loads, each waiting for the one before. Unused keys are all ones.
inline uint32_t reader_rank(const Node *node, uint64_t key)
{
	static_assert(fan_out == 31);
	uint32_t group = 0;

	for (uint32_t i = 3; i < 28; i += 4)
		group += acquire(&node->key[i]) <= key;
	const uint64_t *rest = &node->key[group * 4];
	return group * 4 + (acquire(rest) <= key) + (acquire(rest + 1) <= key) +
	       (acquire(rest + 2) <= key);
}

inline void prefetch_lines(const void *at, unsigned int lines)
{
	for (unsigned int i = 0; i < lines; i++)
		__builtin_prefetch((const char *)at + i * 64);
}

// The id of the last range that starts at or below @pc.
inline Walk walk(const Control *c, const Node *nodes, uint64_t pc, uint64_t *id)
{
	const auto *slots = (const Slot *)acquire(&c->slots);
	uint64_t ref = acquire(&c->root);

	if (!ref)
		return Walk::nothing;
	for (;;) {
		const Node *node = nodes + index_of(ref);
		const uint32_t info = acquire(&node->info);
		const uint32_t rank = reader_rank(node, pc), count = node_count(info);
		const uint32_t below = rank < count ? rank : count;
		const uint64_t child = acquire(&node->child[below ? below - 1 : 0]);

		// All lines of what comes next at once, before anything waits for one.
		if (node_level(info))
			prefetch_lines(nodes + index_of(child), 5);
		else
			prefetch_lines(slots + index_of(child), 2);
		if (acquire(&node->self) != ref)
			return Walk::again;
		if (!below)
			return Walk::nothing;
		ref = child;
		if (node_level(info) == 0)
			break;
	}
	*id = ref;
	return Walk::found;
}

// Where the hint for @pc is, or nullptr.
inline uint64_t *hint_for(const Control *c, uint64_t pc)
{
	const uint64_t count = acquire(&c->hint_count);

	return count ? (uint64_t *)acquire(&c->hints) + hint_index(pc, count) : nullptr;
}

// Is @id a live slot that covers @pc? @copy took what it is.
template <typename Copy> inline bool take_slot(const Control *c, uint64_t id, uint64_t pc, Copy copy)
{
	const Slot *slot = slot_at(c, id);
	const uint64_t start = acquire(&slot->text_start), end = acquire(&slot->text_end);

	copy(slot);
	return acquire(&slot->id) == id && start <= pc && pc < end;
}

// Calls @copy with the slot that covers @pc; what it copied counts if the slot
// is still that one afterwards.
template <typename Copy> inline int find_slot(uint64_t pc, Copy copy)
{
	Control *c = registry_control(false);
	const Node *nodes = c ? (const Node *)acquire(&c->nodes) : nullptr;

	if (!nodes)
		return -ENOENT;
	uint64_t *hint = hint_for(c, pc);
	const uint64_t hinted = hint ? acquire(hint) : 0;
	if (hinted && take_slot(c, hinted, pc, copy))
		return 0;
	for (int i = 0; i < max_tries; i++) {
		uint64_t id;
		const Walk result = walk(c, nodes, pc, &id);

		if (result == Walk::nothing)
			return -ENOENT;
		if (result == Walk::found) {
			if (take_slot(c, id, pc, copy)) {
				if (hint)
					release(hint, id);
				return 0;
			}
			if (acquire(&slot_at(c, id)->id) == id)
				return -ENOENT;
		}
		stat_add(c, Stat::lookup_retries);
	}
	stat_add(c, Stat::lookup_failures);
	return -EBUSY;
}

void copy_words(void *to, const void *from, unsigned int words)
{
	for (unsigned int i = 0; i < words; i++)
		((uint64_t *)to)[i] = acquire((const uint64_t *)from + i);
}

// First of the slots of a section: the tree's values are slot ids, but only
// the index counts.
Slot *section_first(const Control *c, uint64_t section)
{
	uint64_t key;
	const uint64_t ref = tree_floor(c, Tree::sections, section, &key);

	return ref && key == section ? slot_at(c, ref) : nullptr;
}

uint32_t slot_index(const Control *c, const Slot *slot)
{
	return (uint32_t)(slot - (const Slot *)c->slots);
}

// A live slot whose range meets [start, end), or nullptr.
Slot *overlapping(const Control *c, uint64_t start, uint64_t end)
{
	uint64_t key;
	uint64_t ref = tree_floor(c, Tree::ranges, start, &key);

	if (ref && slot_at(c, ref)->text_end > start)
		return slot_at(c, ref);
	ref = tree_above(c, Tree::ranges, start, &key);
	return ref && key < end ? slot_at(c, ref) : nullptr;
}

void fill_slot(Slot *slot, const sframe_setup &setup, const sframe_section &section,
	       const Metadata &meta, uint32_t record)
{
	Slot filled = {};

	filled.text_start = setup.text_start;
	filled.text_end = setup.text_start + setup.text_size;
	filled.section = section;
	filled.sframe_size = setup.sframe_size;
	filled.load_bias = meta.load_bias;
	filled.flags = (uint32_t)(setup.flags & ~SFRAME_REPLACE);
	filled.source = (uint8_t)meta.source;
	filled.record = record;
	if (meta.build_id) {
		filled.build_id_size = (uint8_t)(meta.build_id_size < sizeof(filled.build_id) ?
							 meta.build_id_size :
							 sizeof(filled.build_id));
		__builtin_memcpy(filled.build_id, meta.build_id, filled.build_id_size);
	}
	// Word 0 is the name: slot_take() wrote it first.
	for (unsigned int i = 1; i < slot_words; i++)
		release((uint64_t *)slot + i, ((const uint64_t *)&filled)[i]);
}

// What is gone from the tree already.
void forget_slot(Control *c, Slot *slot)
{
	section_unlink(c, slot);
	export_clear(c, slot);
	slot_retire(c, slot);
	c->live--;
	stat_add(c, Stat::unregistered);
	release(&c->stats[(unsigned int)Stat::live], (uint64_t)c->live);
	release(&c->generation, c->generation + 1);
}

int drop_slot(Control *c, Slot *slot)
{
	// One erasure changes the ranges' tree and perhaps that of the sections.
	const int err = memory_prepare(c, 2 * tree_nodes_needed, 0, 0);

	if (err)
		return err;
	tree_erase(c, Tree::ranges, slot->text_start);
	forget_slot(c, slot);
	return 0;
}

class Addition {
public:
	Addition(Control *control, const sframe_setup &what, const sframe_section &parsed,
		 const Metadata &metadata)
		: c(control), setup(what), section(parsed), meta(metadata),
		  end(what.text_start + what.text_size)
	{
	}

	// @path_length was measured before the lock was taken.
	int run(size_t path_length, bool *replaced)
	{
		const bool kernel = c->backend == SFRAME_BACKEND_KERNEL;
		Slot *old = overlapping(c, setup.text_start, end);
		int err = kernel ? 0 : verdict(old);

		if (!err && !old && c->live >= c->max_ranges)
			err = -ENOSPC;
		if (!err)
			err = memory_prepare(c, 2 * tree_nodes_needed, 1, path_length);
		if (!err && kernel)
			err = kernel_first(&old, path_length);
		if (err)
			return err;
		*replaced = old != nullptr;
		insert(path_length, old);
		return 0;
	}

private:
	Control *c;
	const sframe_setup &setup;
	const sframe_section &section;
	const Metadata &meta;
	const uint64_t end;

	bool same_range(const Slot *slot) const
	{
		return slot && slot->text_start == setup.text_start && slot->text_end == end;
	}

	int verdict(const Slot *old) const
	{
		if (setup.flags & SFRAME_REPLACE)
			return same_range(old) ? 0 : -ENOENT;
		return old ? -EEXIST : 0;
	}

	// The kernel decides about overlaps. It sees unmappings, the index does
	// not: what the kernel let us register over is no more. Leaves in *old
	// the slot of exactly this range.
	int kernel_first(Slot **old, size_t path_length)
	{
		int err = kernel_register(c, setup);

		if (err)
			return err;
		while (!err && *old && !same_range(*old)) {
			err = drop_slot(c, *old);
			*old = overlapping(c, setup.text_start, end);
		}
		if (!err)
			err = memory_prepare(c, 2 * tree_nodes_needed, 1, path_length);
		if (err)
			kernel_unregister(c, setup);
		return err;
	}

	// Nothing here can fail. The new slot takes the old one's place by one store.
	void insert(size_t path_length, Slot *old)
	{
		const uint32_t record = path_length ? record_take(c, meta.path, path_length) : 0;
		Slot *slot = slot_take(c);

		fill_slot(slot, setup, section, meta, record);
		tree_put(c, Tree::ranges, setup.text_start, slot->id);
		section_link(c, slot);
		c->live++;
		stat_add(c, Stat::registered);
		if (old)
			forget_slot(c, old);
		release(&c->stats[(unsigned int)Stat::live], (uint64_t)c->live);
		export_put(c, slot);
		export_stats(c);
	}
};

size_t path_length_of(const Metadata &meta)
{
	size_t n = 0;

	while (meta.path && n < max_path && meta.path[n])
		n++;
	return n;
}

int remove_from_index(Control *c, const sframe_setup &setup)
{
	int err = -ENOENT;

	if (setup.text_start || setup.text_size) {
		uint64_t key;
		const uint64_t ref = tree_floor(c, Tree::ranges, setup.text_start, &key);
		Slot *slot = ref ? slot_at(c, ref) : nullptr;

		if (slot && slot->text_start == setup.text_start &&
		    slot->text_end == setup.text_start + setup.text_size &&
		    slot->section.addr == setup.sframe_start)
			err = drop_slot(c, slot);
	} else {
		while (Slot *slot = section_first(c, setup.sframe_start)) {
			err = drop_slot(c, slot);
			if (err)
				break;
		}
	}
	if (!err)
		export_stats(c);
	return err;
}

} // namespace

void section_link(Control *c, const Slot *slot)
{
	const uint32_t index = slot_index(c, slot);
	const Slot *first = section_first(c, slot->section.addr);
	Link *link = link_at(c, index);

	link->prev = none;
	link->next = first ? slot_index(c, first) : none;
	if (first)
		link_at(c, link->next)->prev = index;
	tree_put(c, Tree::sections, slot->section.addr, slot->id);
}

void section_unlink(Control *c, const Slot *slot)
{
	const Link link = *link_at(c, slot_index(c, slot));

	if (link.next != none)
		link_at(c, link.next)->prev = link.prev;
	if (link.prev != none)
		link_at(c, link.prev)->next = link.next;
	else if (link.next != none)
		tree_put(c, Tree::sections, slot->section.addr, slot_at(c, link.next)->id);
	else
		tree_erase(c, Tree::sections, slot->section.addr);
}

int registry_lookup(uint64_t pc, Covering *out)
{
	return find_slot(pc, [out](const Slot *slot) {
		out->text_start = acquire(&slot->text_start);
		out->text_end = acquire(&slot->text_end);
		out->id = acquire(&slot->id);
		copy_words(&out->section, &slot->section, sizeof(slot->section) / 8);
	});
}

uint64_t registry_generation()
{
	const Control *c = registry_control(false);

	return c ? acquire(&c->generation) : 0;
}

int registry_add(const sframe_setup &setup, const Metadata &meta)
{
	sframe_section section;
	bool replaced = false;
	int err = setup_check(setup, meta.executable, &section);

	if (err)
		return err;
	Control *c = registry_control(true);
	if (!c)
		return -ENOMEM;
	const int backend = backend_in_use(c);
	if (backend < 0 || backend == SFRAME_BACKEND_NONE)
		return backend < 0 ? backend : 0;
	const size_t path_length = path_length_of(meta);
	{
		WriterLock lock(c);

		err = memory_reserve(c);
		if (!err)
			err = Addition(c, setup, section, meta).run(path_length, &replaced);
	}
	if (replaced)
		registry_wait_for_readers(c);
	return err;
}

int registry_remove(const sframe_setup &setup)
{
	if ((setup.flags & ~(SFRAME_GROWABLE | SFRAME_REPLACE | SFRAME_FUNC_BASE)) ||
	    (setup.func_base && !(setup.flags & SFRAME_FUNC_BASE)) ||
	    setup.text_start + setup.text_size < setup.text_start)
		return -EINVAL;
	Control *c = registry_control(true);
	if (!c)
		return -ENOMEM;
	const int backend = backend_in_use(c);
	int err;

	if (backend < 0 || backend == SFRAME_BACKEND_NONE)
		return backend < 0 ? backend : 0;
	{
		WriterLock lock(c);

		err = c->nodes ? remove_from_index(c, setup) : -ENOENT;
		// The kernel may know ranges that the index does not, and has seen
		// unmappings that the index has not.
		if (backend == SFRAME_BACKEND_KERNEL) {
			const int kernel_err = kernel_unregister(c, setup);

			if (err == -ENOENT || kernel_err != -ENOENT)
				err = kernel_err;
		}
	}
	if (!err)
		registry_wait_for_readers(c);
	return err;
}

void registry_exit()
{
	Control *c = registry_control(false);

	if (!c)
		return;
	release(&c->exiting, UINT32_C(1));
	if (acquire(&guard_of(c)->alive))
		export_unlink(c);
}

} // namespace sframe

using namespace sframe;

static void fill_range(sframe_range *range, const Slot &slot)
{
	const size_t size = range->size;

	__builtin_memset(range, 0, size);
	range->size = size;
	range->text_start = slot.text_start;
	range->text_end = slot.text_end;
	range->sframe_start = slot.section.addr;
	range->sframe_size = slot.sframe_size;
	range->func_base = slot.flags & SFRAME_FUNC_BASE ? slot.section.base : 0;
	range->flags = slot.flags;
	range->load_bias = slot.load_bias;
	range->id = slot.id;
	range->source = slot.source;
	range->version = slot.section.version;
	range->build_id_size = slot.build_id_size;
	__builtin_memcpy(range->build_id, slot.build_id, sizeof(range->build_id));
}

EXPORT int sframe_register(const sframe_setup *setup, size_t size)
{
	sframe_setup copy;
	const int err = setup_copy(setup, size, &copy);

	return err ? err : registry_add(copy, Metadata{});
}

EXPORT int sframe_unregister(const sframe_setup *setup, size_t size)
{
	sframe_setup copy;
	const int err = setup_copy(setup, size, &copy);

	return err ? err : registry_remove(copy);
}

EXPORT int sframe_find(uint64_t pc, sframe_range *range)
{
	Slot slot;

	if (range->size < sizeof(*range))
		return -EINVAL;
	const int err = find_slot(pc, [&](const Slot *found) {
		copy_words(&slot, found, slot_words);
	});
	if (!err)
		fill_range(range, slot);
	return err;
}

EXPORT int sframe_range_path(uint64_t id, char *path, size_t size)
{
	const Control *c = registry_control(false);

	if (!c || !acquire(&c->slots) || index_of(id) >= relaxed(&c->slot_arena.fresh))
		return -ENOENT;
	const Slot *slot = slot_at(c, id);
	if (!id || acquire(&slot->id) != id)
		return -ENOENT;
	const uint32_t record = acquire(&slot->record);
	size_t length = 0;
	if (record) {
		const Record *r = record_at(c, record);

		length = acquire(&r->length);
		for (size_t i = 0; i < length && i + 1 < size; i += 8) {
			const uint64_t word = acquire((const uint64_t *)(r->path + i));
			const size_t n = size - 1 - i < 8 ? size - 1 - i : 8;

			__builtin_memcpy(path + i, &word, n);
		}
	}
	if (size)
		path[length < size ? length : size - 1] = 0;
	return acquire(&slot->id) == id ? (int)length : -ENOENT;
}

EXPORT uint64_t sframe_generation(void) { return registry_generation(); }
