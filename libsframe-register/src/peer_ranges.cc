// SPDX-License-Identifier: MIT
#include "peer.h"
#include "sys.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

namespace sframe {

namespace {

// Twice the room, at a place of the kernel's choice.
void *grow(void *old, uint64_t old_size, uint64_t new_size)
{
	const long p = old ?
		sys::call(__NR_mremap, sys::arg(old), (long)old_size, (long)new_size, MREMAP_MAYMOVE) :
		sys::call(__NR_mmap, 0, (long)new_size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return sys::failed(p) ? nullptr : (void *)p;
}

} // namespace

PeerRanges::~PeerRanges()
{
	if (item)
		sys::call(__NR_munmap, sys::arg(item), (long)(capacity * sizeof(Item)));
	if (text)
		sys::call(__NR_munmap, sys::arg(text), (long)text_capacity);
}

int PeerRanges::add(const sframe_range &range, const char *path, size_t length)
{
	if (count == capacity) {
		const uint64_t wanted = capacity ? capacity * 2 : 1024;
		void *p = grow(item, capacity * sizeof(Item), wanted * sizeof(Item));

		if (!p)
			return -ENOMEM;
		item = (Item *)p;
		capacity = wanted;
	}
	while (text_size + length + 1 > text_capacity) {
		const uint64_t wanted = text_capacity ? text_capacity * 2 : 65536;
		void *p = grow(text, text_capacity, wanted);

		if (!p)
			return -ENOMEM;
		text = (char *)p;
		text_capacity = wanted;
	}
	item[count++] = { range, text_size };
	memcpy(text + text_size, path, length);
	text[text_size + length] = 0;
	text_size += length + 1;
	return 0;
}

void PeerRanges::settle()
{
	uint64_t kept = 0;

	std::sort(item, item + count, [](const Item &a, const Item &b) {
		return a.range.text_start != b.range.text_start ?
			a.range.text_start < b.range.text_start : a.range.id < b.range.id;
	});
	for (uint64_t i = 0; i < count; i++) {
		if (!kept || item[kept - 1].range.text_end <= item[i].range.text_start)
			item[kept++] = item[i];
		else if (item[kept - 1].range.id < item[i].range.id)
			item[kept - 1] = item[i];
	}
	count = kept;
}

} // namespace sframe
