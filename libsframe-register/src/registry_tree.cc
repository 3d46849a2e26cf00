// SPDX-License-Identifier: MIT
//
// The B+ tree. One code for both trees: that of the ranges is persistent (each
// change builds the changed nodes anew from leaf to root and publishes the
// root), that of the sections is the writers' own and changed in place.
//
// A change works upwards level by level, on a run of entries: the children
// [at, at + gone) of a node are replaced by `run`. What results is one node,
// two if it is too long, or, if it is too short, it is put together with a
// neighbour first.
#include "registry_state.h"

namespace sframe {

namespace {

// Enough for a full node with one entry more, or a short one and a full
// neighbour. Not cleared: only the first `count` mean something.
struct Entries {
	uint32_t count;
	uint64_t key[2 * fan_out];
	uint64_t child[2 * fan_out];

	void add(uint64_t k, uint64_t v)
	{
		key[count] = k;
		child[count++] = v;
	}
	void add(const Node *node, uint32_t from, uint32_t to)
	{
		for (uint32_t i = from; i < to; i++)
			add(node->key[i], node->child[i]);
	}
	void add(const Entries &other)
	{
		for (uint32_t i = 0; i < other.count; i++)
			add(other.key[i], other.child[i]);
	}
};

// What stands in a parent for the node that was changed.
struct Run {
	uint32_t count = 0;
	uint64_t key[2];
	uint64_t child[2];

	void add(uint64_t k, uint64_t v)
	{
		key[count] = k;
		child[count++] = v;
	}
};

struct Path {
	uint32_t height = 0;
	Node *node[max_height];		// from the root
	uint32_t at[max_height];	// the child taken
};

uint64_t *root_of(Control *c, Tree tree)
{
	return tree == Tree::ranges ? &c->root : &c->sections;
}

uint64_t root_ref(const Control *c, Tree tree)
{
	return tree == Tree::ranges ? c->root : c->sections;
}

// How many keys are at or below @key.
uint32_t rank(const Node *node, uint64_t key)
{
	uint32_t lo = 0, hi = node_count(node->info);

	while (lo < hi) {
		const uint32_t mid = (lo + hi) / 2;

		if (node->key[mid] <= key)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

Path descend(const Control *c, Tree tree, uint64_t key)
{
	Path path;
	uint64_t ref = root_ref(c, tree);

	while (ref && path.height < max_height) {
		Node *node = node_at(c, ref);
		const uint32_t below = rank(node, key);

		path.node[path.height] = node;
		path.at[path.height++] = below ? below - 1 : 0;
		ref = node_level(node->info) ? node->child[below ? below - 1 : 0] : 0;
	}
	return path;
}

// One change of a tree, from leaf to root.
class Change {
public:
	Change(Control *control, Tree which, uint64_t key)
		: c(control), tree(which), path(descend(control, which, key))
	{
	}

	// Replace entries [at, at + gone) of the leaf by @run, and what follows from it.
	void apply(uint32_t at, uint32_t gone, Run run)
	{
		uint32_t level = 0;
		Entries all;

		for (uint32_t depth = path.height; depth-- > 0; level++) {
			Node *node = path.node[depth];
			bool appended = at + gone == node_count(node->info) && at_edge(depth);

			all.count = 0;
			all.add(node, 0, at);
			for (uint32_t i = 0; i < run.count; i++)
				all.add(run.key[i], run.child[i]);
			all.add(node, at + gone, node_count(node->info));
			retire(node);
			at = depth ? path.at[depth - 1] : 0;
			gone = 1;
			if (depth && all.count < min_fill) {
				join_neighbour(path.node[depth - 1], &at, &gone, &all);
				appended = false;
			}
			run = write(level, all, appended);
		}
		finish(level, run);
	}

	// The first entry of all: an empty tree has no leaf to change.
	void begin(uint64_t key, uint64_t value)
	{
		Entries all;

		all.count = 0;
		all.add(key, value);
		finish(1, write(0, all, false));
	}

	const Path &where() const { return path; }

private:
	Control *c;
	Tree tree;
	Path path;
	Node *retired[3 * max_height];
	uint32_t retired_count = 0;

	void retire(Node *node) { retired[retired_count++] = node; }

	// Changed in place, a node is there again for the next one to be written.
	Node *fresh()
	{
		if (tree == Tree::sections && retired_count)
			return retired[--retired_count];
		return node_take(c);
	}

	// Is the node at @depth the last of its level?
	bool at_edge(uint32_t depth) const
	{
		while (depth-- > 0)
			if (path.at[depth] + 1 != node_count(path.node[depth]->info))
				return false;
		return true;
	}

	void join_neighbour(const Node *parent, uint32_t *at, uint32_t *gone, Entries *all)
	{
		const bool left = *at > 0;

		if (node_count(parent->info) < 2)
			return;
		Node *other = node_at(c, parent->child[left ? *at - 1 : *at + 1]);
		Entries joined;
		joined.count = 0;
		if (left)
			joined.add(other, 0, node_count(other->info));
		joined.add(*all);
		if (!left)
			joined.add(other, 0, node_count(other->info));
		all->count = 0;
		all->add(joined);
		*at -= left;
		*gone = 2;
		retire(other);
	}

	// Appending in order fills nodes; anything else splits in the middle.
	Run write(uint32_t level, const Entries &all, bool appended)
	{
		uint32_t first = all.count;
		Run run;

		if (first > fan_out)
			first = appended ? fan_out : first / 2;
		if (first)
			write_node(level, all, 0, first, &run);
		if (first < all.count)
			write_node(level, all, first, all.count, &run);
		return run;
	}

	void write_node(uint32_t level, const Entries &all, uint32_t from, uint32_t to, Run *run)
	{
		Node *node = fresh();

		for (uint32_t i = from; i < to; i++) {
			release(&node->key[i - from], all.key[i]);
			release(&node->child[i - from], all.child[i]);
		}
		// Readers compare all keys, however many there are.
		for (uint32_t i = to - from; i < fan_out; i++)
			release(&node->key[i], ~UINT64_C(0));
		release(&node->info, (to - from) | level << 16);
		run->add(all.key[from], node->self);
	}

	void finish(uint32_t level, Run run)
	{
		if (run.count > 1) {
			Entries top;

			top.count = 0;
			top.add(run.key[0], run.child[0]);
			top.add(run.key[1], run.child[1]);
			run = write(level, top, false);
		}
		uint64_t root = run.count ? run.child[0] : 0;
		// A root with one child is no root.
		while (root) {
			Node *node = node_at(c, root);

			if (node_level(node->info) == 0 || node_count(node->info) > 1)
				break;
			retire(node);
			root = node->child[0];
		}
		release(root_of(c, tree), root);
		for (uint32_t i = 0; i < retired_count; i++)
			node_retire(c, retired[i]);
	}
};

} // namespace

void tree_put(Control *c, Tree tree, uint64_t key, uint64_t value)
{
	Change change(c, tree, key);
	const Path &path = change.where();

	if (!path.height)
		return change.begin(key, value);
	const Node *leaf = path.node[path.height - 1];
	uint32_t at = rank(leaf, key);
	const bool there = at && leaf->key[at - 1] == key;
	Run run;
	run.add(key, value);
	change.apply(at - there, there, run);
}

void tree_erase(Control *c, Tree tree, uint64_t key)
{
	Change change(c, tree, key);
	const Path &path = change.where();

	if (!path.height)
		return;
	const Node *leaf = path.node[path.height - 1];
	const uint32_t at = rank(leaf, key);
	if (at && leaf->key[at - 1] == key)
		change.apply(at - 1, 1, Run());
}

uint64_t tree_floor(const Control *c, Tree tree, uint64_t key, uint64_t *found)
{
	const Path path = descend(c, tree, key);

	if (!path.height)
		return 0;
	const Node *leaf = path.node[path.height - 1];
	const uint32_t below = rank(leaf, key);
	if (!below)
		return 0;
	*found = leaf->key[below - 1];
	return leaf->child[below - 1];
}

uint64_t tree_above(const Control *c, Tree tree, uint64_t key, uint64_t *found)
{
	const Path path = descend(c, tree, key);

	for (uint32_t depth = path.height; depth-- > 0;) {
		const Node *node = path.node[depth];
		uint32_t next = rank(node, key);

		if (next == node_count(node->info))
			continue;
		// The smallest key of that subtree.
		while (node_level(node->info)) {
			node = node_at(c, node->child[next]);
			next = 0;
		}
		*found = node->key[next];
		return node->child[next];
	}
	return 0;
}

} // namespace sframe
