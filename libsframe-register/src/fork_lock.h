// SPDX-License-Identifier: MIT
//
// A lock that does not survive fork(). The child of a process in which another
// thread held it finds it free: its word lives in a page that the kernel wipes
// in the child. What it protects must be usable at every instruction, or be of
// no use to a child that died between two of them.
#pragma once

#include <cstdint>
#include <ctime>
#include <linux/futex.h>
#include <linux/mman.h>
#include "sys.h"

namespace sframe {

class ForkLock {
public:
	class Guard {
	public:
		explicit Guard(ForkLock &lock) : word_(lock.word()) { acquire(word_); }
		~Guard() { release(word_); }
		Guard(const Guard &) = delete;
		Guard &operator=(const Guard &) = delete;

	private:
		uint32_t *word_;
	};

private:
	// 0 free, 1 held, 2 held and somebody waits.
	static void acquire(uint32_t *word)
	{
		uint32_t seen = 0;

		if (__atomic_compare_exchange_n(word, &seen, 1, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return;
		while (__atomic_exchange_n(word, 2, __ATOMIC_ACQUIRE) != 0)
			sys::call(__NR_futex, sys::arg(word), FUTEX_WAIT_PRIVATE, 2, 0);
	}

	static void release(uint32_t *word)
	{
		if (__atomic_exchange_n(word, 0, __ATOMIC_RELEASE) == 2)
			sys::call(__NR_futex, sys::arg(word), FUTEX_WAKE_PRIVATE, 1);
	}

	// The page is made at the first use. Without one (no memory, or a
	// kernel that cannot wipe) the word beside serves: a lock, if one that
	// a fork may copy held.
	uint32_t *word()
	{
		uint32_t *page = __atomic_load_n(&page_, __ATOMIC_ACQUIRE);

		if (page)
			return page;
		const long at = sys::call(__NR_mmap, 0, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		uint32_t *made = &beside_;
		if (!sys::failed(at)) {
			if (sys::failed(sys::call(__NR_madvise, at, 4096, MADV_WIPEONFORK)))
				sys::call(__NR_munmap, at, 4096);
			else
				made = reinterpret_cast<uint32_t *>(at);
		}
		if (!__atomic_compare_exchange_n(&page_, &page, made, false, __ATOMIC_ACQ_REL,
						 __ATOMIC_ACQUIRE)) {
			if (made != &beside_)
				sys::call(__NR_munmap, sys::arg(made), 4096);
			return page;
		}
		return made;
	}

	uint32_t *page_ = nullptr;
	uint32_t beside_ = 0;
};

} // namespace sframe
