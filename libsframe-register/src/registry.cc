// SPDX-License-Identifier: MIT
//
// The index of registered text ranges, and the calls on it.
#include "registry.h"
#include "sys.h"

#include <linux/mman.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace sframe {

namespace {

struct Slot {
	Covering covering;
	uint64_t sframe_start, sframe_size, flags, func_base, load_bias;
	uint32_t source, build_id_size;
	unsigned char build_id[20];
	char path[4096];
};

constexpr uint32_t max_slots = 65536;

Slot *slots;		// sorted by text_start
uint32_t order[max_slots];
uint32_t count;
uint64_t next_id, generation, registered, unregistered;
uint32_t free_slots[max_slots], free_count, fresh;

Slot *reserve()
{
	if (!slots) {
		const long p = sys::call(__NR_mmap, 0, sizeof(Slot) * (long)max_slots, 3,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (sys::failed(p))
			return nullptr;
		slots = (Slot *)p;
	}
	return slots;
}

// The first position whose range ends above pc.
uint32_t position(uint64_t pc)
{
	uint32_t lo = 0, hi = count;

	while (lo < hi) {
		const uint32_t mid = (lo + hi) / 2;

		if (slots[order[mid]].covering.text_end <= pc)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

void drop(uint32_t at)
{
	free_slots[free_count++] = order[at];
	__builtin_memmove(order + at, order + at + 1, (count - at - 1) * sizeof(order[0]));
	count--;
	unregistered++;
	generation++;
}

} // namespace

int registry_lookup(uint64_t pc, Covering *out)
{
	const uint32_t at = position(pc);

	if (at == count || slots[order[at]].covering.text_start > pc)
		return -ENOENT;
	*out = slots[order[at]].covering;
	return 0;
}

uint32_t registry_read_enter() { return 0; }
void registry_read_leave(uint32_t) {}

uint64_t registry_generation() { return generation; }

int registry_add(const sframe_setup &setup, const Metadata &meta)
{
	const uint64_t end = setup.text_start + setup.text_size;
	unsigned int options = 0;
	sframe_section section;

	if (end <= setup.text_start || setup.flags & ~UINT64_C(7) ||
	    (setup.func_base && !(setup.flags & SFRAME_FUNC_BASE)))
		return -EINVAL;
	if (setup.flags & SFRAME_GROWABLE)
		options |= SFRAME_PARSE_GROWABLE;
	if (setup.flags & SFRAME_FUNC_BASE)
		options |= SFRAME_PARSE_FUNC_BASE;
	if (sframe_section_parse(&section, setup.sframe_start, setup.sframe_size, setup.func_base,
				 options, nullptr))
		return -EINVAL;
	if (!reserve())
		return -ENOMEM;
	uint32_t at = position(setup.text_start);
	if (setup.flags & SFRAME_REPLACE) {
		if (at == count || slots[order[at]].covering.text_start != setup.text_start ||
		    slots[order[at]].covering.text_end != end)
			return -ENOENT;
		drop(at);
	} else if (at < count && slots[order[at]].covering.text_start < end) {
		return -EEXIST;
	}
	if (!free_count && fresh == max_slots)
		return -ENOSPC;
	const uint32_t s = free_count ? free_slots[--free_count] : fresh++;
	__builtin_memmove(order + at + 1, order + at, (count - at) * sizeof(order[0]));
	order[at] = s;
	count++;
	registered++;
	Slot &slot = slots[s];
	slot.covering = { setup.text_start, end, ++next_id, section };
	slot.sframe_start = setup.sframe_start;
	slot.sframe_size = setup.sframe_size;
	slot.flags = setup.flags & ~SFRAME_REPLACE;
	slot.func_base = setup.func_base;
	slot.load_bias = meta.load_bias;
	slot.source = meta.source;
	slot.build_id_size = meta.build_id_size < 20 ? meta.build_id_size : 20;
	if (meta.build_id)
		__builtin_memcpy(slot.build_id, meta.build_id, slot.build_id_size);
	size_t n = 0;
	for (; meta.path && meta.path[n] && n < sizeof(slot.path) - 1; n++)
		slot.path[n] = meta.path[n];
	slot.path[n] = 0;
	return 0;
}

int registry_remove(const sframe_setup &setup)
{
	const bool one = setup.text_start || setup.text_size;
	int found = -ENOENT;

	for (uint32_t i = count; i-- > 0;) {
		const Slot &slot = slots[order[i]];

		if (slot.sframe_start == setup.sframe_start &&
		    (!one || (slot.covering.text_start == setup.text_start &&
			      slot.covering.text_end == setup.text_start + setup.text_size))) {
			drop(i);
			found = 0;
		}
	}
	return found;
}

} // namespace sframe

using namespace sframe;

EXPORT int sframe_register(const sframe_setup *setup, size_t size)
{
	sframe_setup copy = {};

	if (size < SFRAME_SETUP_SIZE_VER0)
		return -EINVAL;
	__builtin_memcpy(&copy, setup, size < sizeof(copy) ? size : sizeof(copy));
	return registry_add(copy, Metadata{});
}

EXPORT int sframe_unregister(const sframe_setup *setup, size_t size)
{
	sframe_setup copy = {};

	if (size < SFRAME_SETUP_SIZE_VER0)
		return -EINVAL;
	__builtin_memcpy(&copy, setup, size < sizeof(copy) ? size : sizeof(copy));
	return registry_remove(copy);
}

EXPORT int sframe_find(uint64_t pc, sframe_range *range)
{
	const uint32_t at = position(pc);

	if (range->size < sizeof(*range))
		return -EINVAL;
	if (at == count || slots[order[at]].covering.text_start > pc)
		return -ENOENT;
	const Slot &slot = slots[order[at]];
	*range = { sizeof(*range), slot.covering.text_start, slot.covering.text_end,
		   slot.sframe_start, slot.sframe_size, slot.func_base, slot.flags, slot.load_bias,
		   slot.covering.id, slot.source, slot.covering.section.version,
		   slot.build_id_size, {} };
	__builtin_memcpy(range->build_id, slot.build_id, sizeof(range->build_id));
	return 0;
}

EXPORT int sframe_range_path(uint64_t id, char *path, size_t size)
{
	for (uint32_t i = 0; i < count; i++) {
		const Slot &slot = slots[order[i]];

		if (slot.covering.id != id)
			continue;
		const size_t length = __builtin_strlen(slot.path);
		const size_t n = length < size ? length : size - 1;
		if (size) {
			__builtin_memcpy(path, slot.path, n);
			path[n] = 0;
		}
		return (int)length;
	}
	return -ENOENT;
}

EXPORT uint64_t sframe_generation(void) { return registry_generation(); }

EXPORT int sframe_backend(void) { return SFRAME_BACKEND_SHM; }

EXPORT uint64_t sframe_backend_features(void)
{
	return SFRAME_GROWABLE | SFRAME_REPLACE | SFRAME_FUNC_BASE;
}

EXPORT int sframe_get_stats(sframe_stats *stats)
{
	if (stats->size < sizeof(*stats))
		return -EINVAL;
	const size_t size = stats->size;
	*stats = {};
	stats->size = size;
	stats->registered = registered;
	stats->unregistered = unregistered;
	stats->live = count;
	return 0;
}
