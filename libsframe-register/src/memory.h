// SPDX-License-Identifier: MIT
//
// Reading memory that may not be there.
//
// An unwinder follows addresses it found on a stack, and a stack may hold
// anything. A fault in a signal handler of somebody's program is not an
// option, and neither is a system call per word. So memory is read only inside
// of a *window*: whole pages that the kernel has confirmed to be readable,
// which grows page by page as a walk climbs the stack.
//
// The kernel is asked by rt_sigprocmask() with an invalid `how`: it copies the
// new mask from user memory first (EFAULT if it cannot) and refuses the
// request second (EINVAL). Nothing changes either way, and no seccomp profile
// forbids a call that libc itself cannot do without.
#pragma once

#include <atomic>
#include <cstdint>
#include "sys.h"

namespace sframe {

constexpr uint64_t page_size = 4096;
// A stack lies in the lower half; the last page is never mapped.
constexpr uint64_t user_end = (UINT64_C(1) << 56) - page_size;

inline uint64_t page_of(uint64_t addr) { return addr & ~(page_size - 1); }

// What the kernel's page tables say now. At most the page of @addr is looked at.
inline bool page_readable(uint64_t addr)
{
	constexpr long invalid_how = 0x5f5f, mask_size = 8;
	// Kernels in user space (emulators) may look at `how` first: ask once with
	// an address that cannot be readable, and trust nothing if that is not seen.
	static std::atomic<int> honest{0};
	int known = honest.load(std::memory_order_relaxed);

	if (known == 0) {
		known = sys::call(__NR_rt_sigprocmask, invalid_how, -8, 0, mask_size) == -EFAULT
				? 1 : -1;
		honest.store(known, std::memory_order_relaxed);
	}
	if (addr >= user_end)
		return false;
	if (known > 0)
		return sys::call(__NR_rt_sigprocmask, invalid_how, (long)(addr & ~UINT64_C(7)), 0,
				 mask_size) == -EINVAL;

	// The long way: let the kernel copy a word out of this very process.
	struct { uint64_t base, len; } local, remote;
	uint64_t word;

	local = { (uint64_t)(uintptr_t)&word, sizeof(word) };
	remote = { addr & ~UINT64_C(7), sizeof(word) };
	return sys::call(__NR_process_vm_readv, sys::call(__NR_getpid), (long)(uintptr_t)&local, 1,
			 (long)(uintptr_t)&remote, 1) == (long)sizeof(word);
}

// The loads themselves. Stack words belong to other functions' frames and are
// read whatever they are: sanitizers have nothing to say here.
#if defined(__clang__) || defined(__GNUC__)
#define SFRAME_RAW_READ __attribute__((no_sanitize("address", "thread", "undefined")))
#endif

SFRAME_RAW_READ inline uint64_t raw_word(uint64_t addr)
{
	typedef uint64_t __attribute__((may_alias, aligned(1))) word;

	return *(const volatile word *)(uintptr_t)addr;
}

SFRAME_RAW_READ inline uint8_t raw_byte(uint64_t addr)
{
	return *(const volatile uint8_t *)(uintptr_t)addr;
}

// A run of pages known to be readable, [lo, hi).
class Window {
public:
	Window() = default;
	Window(uint64_t lo, uint64_t hi) : lo_(lo), hi_(hi) {}

	uint64_t lo() const { return lo_; }
	uint64_t hi() const { return hi_; }

	bool empty() const { return lo_ == hi_; }

	bool covers(uint64_t addr, uint64_t len) const
	{
		return addr - lo_ < hi_ - lo_ && hi_ - addr >= len;
	}

	// Is @addr close enough to grow there? A larger gap is stepped over, not
	// verified page by page.
	bool near(uint64_t addr) const
	{
		constexpr uint64_t gap = 8 * page_size;

		return !empty() && addr + gap >= lo_ && addr < hi_ + gap;
	}

	// Make [addr, addr + len) part of the window: by growing, if it is near,
	// else by moving there. Pages in @known need no question.
	bool reach(uint64_t addr, uint64_t len, const Window &known)
	{
		if (addr >= user_end || len == 0 || len > page_size)
			return false;
		const uint64_t first = page_of(addr), end = page_of(addr + len - 1) + page_size;

		if (!near(addr))
			lo_ = hi_ = first;
		while (lo_ > first)
			if (!grow_down(known))
				return false;
		while (hi_ < end)
			if (!grow_up(known))
				return false;
		return true;
	}

	// One word, so that a signal handler never sees half of a change: the
	// first page's number and how many pages.
	static constexpr unsigned count_bits = 19;

	uint64_t pack() const
	{
		const uint64_t pages = (hi_ - lo_) / page_size;
		const uint64_t most = (UINT64_C(1) << count_bits) - 1;

		return lo_ / page_size << count_bits | (pages < most ? pages : most);
	}

	static Window unpack(uint64_t word)
	{
		const uint64_t lo = (word >> count_bits) * page_size;

		return { lo, lo + (word & ((UINT64_C(1) << count_bits) - 1)) * page_size };
	}

private:
	bool grow_up(const Window &known)
	{
		if (known.covers(hi_, 1))
			hi_ = known.hi_;
		else if (page_readable(hi_))
			hi_ += page_size;
		else
			return false;
		return true;
	}

	bool grow_down(const Window &known)
	{
		if (known.covers(lo_ - 1, 1))
			lo_ = known.lo_;
		else if (page_readable(lo_ - page_size))
			lo_ -= page_size;
		else
			return false;
		return true;
	}

	uint64_t lo_ = 0, hi_ = 0;
};

} // namespace sframe
