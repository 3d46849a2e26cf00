// SPDX-License-Identifier: MIT
//
// Where an earlier walk came along.
//
// From sample to sample a thread's outer frames stay what they were. Walking
// them by rule again means to wait, frame after frame, for a return address to
// be loaded, its rule to be found and the next address to be computed. But a
// step by an ordinary rule is a function of the frame, the rule and one or two
// words of stack. So a walk leaves behind what frames it found and where those
// words lie; the next one, once it arrives at one of these frames (same PC, sp
// and rbp, same generation of rules), has only to see that the words are still
// the same, and these loads do not wait for each other.
//
// A trail is taken by a try-lock: who finds it taken (a signal handler inside
// of a walk, another thread) walks without. Nobody waits; a trail that was
// taken while another thread forked stays unused in the child.
#pragma once

#include <atomic>
#include <cstdint>
#include "memory.h"

namespace sframe {

class Trail {
public:
	struct Frame {
		uint64_t pc, sp, fp;
		uint64_t saved;	// where the caller's rbp was read, or one of:
	};
	static constexpr uint64_t unchanged = 0;	// rbp is the caller's
	static constexpr uint64_t no_step = 1;		// the step from here was not by ordinary rule

	static constexpr uint32_t max_frames = 256;

	// Before a walk writes anything: the exchange waits for all earlier stores.
	bool take()
	{
		return !taken_.load(std::memory_order_relaxed) &&
		       !taken_.exchange(true, std::memory_order_acquire);
	}
	void leave() { taken_.store(false, std::memory_order_release); }

	// A walk begins.
	void begin(uint64_t generation)
	{
		if (generation_ != generation)
			count_ = 0;
		generation_ = generation;
		at_ = fresh_count_ = 0;
		followed_ = false;
	}

	// Was an earlier walk at this frame? Then follow() may be called.
	bool meets(uint64_t pc, uint64_t sp, uint64_t fp)
	{
		const Frame *const kept = frames_[kept_];

		while (at_ < count_ && kept[at_].sp < sp)
			at_++;
		return at_ < count_ && kept[at_].sp == sp && kept[at_].pc == pc &&
		       kept[at_].fp == fp;
	}

	// Appends PCs at *@out as far as the stack is as it was, and returns the
	// frame arrived at. All reads are in @window.
	const Frame &follow(uint64_t **out, uint64_t *end, const Window &window)
	{
		const Frame *const kept = frames_[kept_];
		const uint32_t from = at_, last = count_ - 1;
		const uint64_t hi = window.hi();
		uint64_t *to = *out;
		uint32_t limit = last, i = from;

		if (limit - from > size_t(end - to))
			limit = from + uint32_t(end - to);
		if (kept[from].sp < window.lo())
			limit = from;
		for (; i < limit; i++) {
			const Frame &frame = kept[i], &next = kept[i + 1];

			// What lies behind no_step may be another stack: not to be touched.
			if (frame.saved != unchanged &&
			    (frame.saved == no_step || frame.saved > hi - sizeof(uint64_t) ||
			     raw_word(frame.saved) != next.fp))
				break;
			if (next.sp > hi || raw_word(next.sp - 8) != next.pc)
				break;
			*to++ = next.pc;
		}
		*out = to;
		at_ = i + 1;
		// Mostly there was nothing new in front and this goes to the end:
		// then the trail is as it should be, and nothing is copied.
		followed_ = fresh_count_ == 0;
		followed_from_ = from;
		followed_to_ = i;
		if (!followed_)
			copy(from, i);
		return kept[i];
	}

	// Does the trail already lead to where the walk ends? Then leave it.
	bool complete() const { return followed_ && followed_to_ == count_ - 1; }

	// One frame of the walk, and how its caller was found.
	void note(const Frame &frame)
	{
		if (followed_) {
			followed_ = false;
			copy(followed_from_, followed_to_);
		}
		if (fresh_count_ < max_frames)
			frames_[!kept_][fresh_count_++] = frame;
	}

	// The walk ends here; its last frame is noted.
	void end()
	{
		kept_ = !kept_;
		count_ = fresh_count_;
	}

private:
	void copy(uint32_t from, uint32_t to)
	{
		for (uint32_t i = from; i < to && fresh_count_ < max_frames; i++)
			frames_[!kept_][fresh_count_++] = frames_[kept_][i];
	}

	Frame frames_[2][max_frames];
	uint32_t kept_ = 0, count_ = 0, fresh_count_ = 0, at_ = 0;
	uint32_t followed_from_ = 0, followed_to_ = 0;
	uint64_t generation_ = 0;
	bool followed_ = false;
	std::atomic<bool> taken_{false};
};

// By the region of the stack, which serves as well as the thread and needs no
// thread-local storage: what a trail says is checked, whosever it was.
class Trails {
public:
	Trail &of(uint64_t sp) { return trails_[(sp >> 20 ^ sp >> 23) % count]; }

private:
	static constexpr unsigned count = 16;
	Trail trails_[count];
};

} // namespace sframe
