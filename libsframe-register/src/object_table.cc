// SPDX-License-Identifier: MIT
#include "object_table.h"

#include <cerrno>
#include <cstring>
#include <elf.h>
#include <sys/mman.h>
#include "fork_lock.h"
#include "sys.h"

namespace sframe {

namespace {

// An open-addressed hash table with linear probing; doubled when two thirds
// full. Removal shifts back what probed past, so there are no tombstones.
ForkLock lock;
ObjectRecord *table;
size_t capacity;	// a power of two
size_t used;

bool same(const ObjectKey &a, const ObjectKey &b)
{
	return a.load_bias == b.load_bias && a.text_start == b.text_start &&
	       a.text_end == b.text_end;
}

bool occupied(const ObjectRecord &record) { return record.key.text_end != 0; }

size_t home(const ObjectKey &key)
{
	return static_cast<size_t>(((key.load_bias ^ key.text_start * 31) >> 12) *
				   UINT64_C(0x9e3779b97f4a7c15) >> 32) & (capacity - 1);
}

// Where the key is, or the free slot where it would be.
size_t slot_of(const ObjectKey &key)
{
	size_t at = home(key);

	while (occupied(table[at]) && !same(table[at].key, key))
		at = (at + 1) & (capacity - 1);
	return at;
}

bool grow()
{
	ObjectRecord *old = table;
	const size_t old_capacity = capacity;
	const size_t want = capacity ? capacity * 2 : 64;
	const long at = sys::call(__NR_mmap, 0, sys::arg(want * sizeof(ObjectRecord)),
				  PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (sys::failed(at))
		return false;
	table = reinterpret_cast<ObjectRecord *>(at);
	capacity = want;
	for (size_t i = 0; i < old_capacity; i++)
		if (occupied(old[i]))
			table[slot_of(old[i].key)] = old[i];
	if (old)
		sys::call(__NR_munmap, sys::arg(old), sys::arg(old_capacity * sizeof(*old)));
	return true;
}

void close_gap(size_t gap)
{
	for (size_t at = (gap + 1) & (capacity - 1); occupied(table[at]);
	     at = (at + 1) & (capacity - 1)) {
		const size_t distance = (at - home(table[at].key)) & (capacity - 1);

		if (distance >= ((at - gap) & (capacity - 1))) {
			table[gap] = table[at];
			gap = at;
		}
	}
	table[gap] = {};
}

} // namespace

ObjectKey object_key(const sframe_object &object)
{
	ObjectKey key = { object.load_bias, 0, 0 };

	for (size_t i = 0; i < object.phnum; i++) {
		const Elf64_Phdr &ph = object.phdr[i];
		const uint64_t start = object.load_bias + ph.p_vaddr;

		if (ph.p_type != PT_LOAD || !(ph.p_flags & PF_X) || !ph.p_memsz)
			continue;
		if (!key.text_end || start < key.text_start)
			key.text_start = start;
		if (start + ph.p_memsz > key.text_end)
			key.text_end = start + ph.p_memsz;
	}
	return key;
}

bool object_known(const ObjectKey &key)
{
	ForkLock::Guard guard(lock);

	return table && key.text_end && occupied(table[slot_of(key)]);
}

int object_remember(const ObjectRecord &record)
{
	ForkLock::Guard guard(lock);

	if ((used + 1) * 3 > capacity * 2 && !grow())
		return -ENOMEM;
	const size_t at = slot_of(record.key);
	if (occupied(table[at]))
		return -EEXIST;
	table[at] = record;
	used++;
	return 0;
}

int object_forget(const ObjectKey &key, ObjectRecord *record)
{
	ForkLock::Guard guard(lock);

	if (!table || !key.text_end)
		return -ENOENT;
	const size_t at = slot_of(key);
	if (!occupied(table[at]))
		return -ENOENT;
	*record = table[at];
	close_gap(at);
	used--;
	return 0;
}

void object_release(ObjectRecord &record)
{
	if (record.made.section)
		sframe_cache_release(&record.made);
	if (record.private_copy)
		sys::call(__NR_munmap, sys::arg(record.private_copy),
			  sys::arg(record.private_size));
	record.private_copy = nullptr;
}

} // namespace sframe
