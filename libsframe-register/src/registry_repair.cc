// SPDX-License-Identifier: MIT
//
// A child born by a raw clone() may inherit an update half done. The ranges'
// tree is whole (its root is one word); free lists and the section tree are
// made anew from what it reaches.
#include "registry_state.h"

namespace sframe {

namespace {

enum : uint32_t { unused = 0xfffffffe, in_use = 0xfffffffd };

// Calls @visit for every node; leaves last seen give the slots.
template <typename Visit> void each_node(Control *c, uint64_t ref, Visit visit, uint32_t depth = 0)
{
	Node *node = node_at(c, ref);

	visit(node);
	if (node_level(node->info) == 0 || depth >= max_height)
		return;
	for (uint32_t i = 0; i < node_count(node->info); i++)
		each_node(c, node->child[i], visit, depth + 1);
}

template <typename Visit> void each_slot(Control *c, Visit visit)
{
	if (!c->root)
		return;
	each_node(c, c->root, [&](Node *node) {
		for (uint32_t i = 0; node_level(node->info) == 0 && i < node_count(node->info); i++)
			visit(slot_at(c, node->child[i]));
	});
}

void requeue_unmarked(Arena *arena)
{
	arena->head = arena->tail = none;
	arena->queued = 0;
	for (uint32_t i = 0; i < arena->fresh; i++) {
		auto *next = (uint32_t *)(arena->next_base + (uint64_t)i * arena->next_stride);

		if (*next == unused)
			arena_requeue(arena, i);
	}
}

template <typename Visit> void each_record(Control *c, Visit visit)
{
	for (uint64_t at = record_unit; at < c->record_pool.fresh;) {
		Record *record = record_at(c, (uint32_t)(at / record_unit));

		visit(record, (uint32_t)(at / record_unit));
		at += (uint64_t)record_unit << record->order;
	}
}

void repair_records(Control *c)
{
	each_record(c, [](Record *record, uint32_t) { record->next = unused; });
	each_slot(c, [&](Slot *slot) {
		if (slot->record)
			record_at(c, slot->record)->next = in_use;
	});
	for (uint32_t &list : c->record_pool.free_list)
		list = 0;
	each_record(c, [&](Record *record, uint32_t at) {
		if (record->next != unused)
			return;
		record->next = c->record_pool.free_list[record->order];
		c->record_pool.free_list[record->order] = at;
	});
}

} // namespace

void registry_repair(Control *c)
{
	if (!c->nodes)
		return;
	for (uint32_t i = 0; i < c->node_arena.fresh; i++)
		((Node *)c->nodes + i)->next = unused;
	for (uint32_t i = 0; i < c->slot_arena.fresh; i++)
		link_at(c, i)->next = unused;
	if (c->root)
		each_node(c, c->root, [](Node *node) { node->next = in_use; });
	c->live = 0;
	each_slot(c, [&](Slot *slot) {
		link_at(c, index_of(slot->id))->next = in_use;
		c->live++;
	});
	for (uint32_t i = 0; i < c->slot_arena.fresh; i++)
		if (link_at(c, i)->next == unused)
			release(&((Slot *)c->slots + i)->id, UINT64_C(0));
	repair_records(c);
	requeue_unmarked(&c->node_arena);
	requeue_unmarked(&c->slot_arena);
	c->sections = 0;
	each_slot(c, [&](Slot *slot) {
		// The tree had its nodes before: there is memory for them.
		if (memory_prepare(c, tree_nodes_needed, 0, 0) == 0)
			section_link(c, slot);
	});
	release(&c->stats[(unsigned int)Stat::live], (uint64_t)c->live);
}

} // namespace sframe
