// SPDX-License-Identifier: MIT
//
// What a stack trace must be, known without CFI: a record of the calls made.
//
// The record is kept from outside, one instruction at a time. A call pushes
// {return address, where it lies}; whatever moves the stack pointer above that
// place has left the function, be it a return, longjmp or a landing pad. A
// signal pushes two records: the interrupted PC, and the return address into
// the restorer that the kernel put on the handler's stack.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shadow {

struct Registers {
	uint64_t pc, sp;
};

struct Range {
	uint64_t lo, hi;
	bool holds(uint64_t addr) const { return addr >= lo && addr < hi; }
};

class Record {
public:
	static constexpr size_t max_depth = 512, max_stacks = 8;

	// Return addresses below the first frame that is stepped, innermost first.
	void begin(const uint64_t *base, size_t count, const Registers &at)
	{
		depth_ = 0;
		for (size_t i = count; i-- > 0;)
			push(base[i], UINT64_MAX, Kind::Base);
		last_ = at;
		note_instruction();
	}

	// Signal stacks: an address there is not comparable with one elsewhere.
	void add_stack(Range range) { stacks_[stack_count_++] = range; }

	// The tracer let a signal through, and this is the handler's first instruction.
	void signal(const Registers &now)
	{
		push(last_.pc, now.sp + 8, Kind::Interrupted);
		push(*(const uint64_t *)now.sp, now.sp, Kind::Call);
		last_ = now;
		note_instruction();
	}

	// One instruction was executed.
	void advance(const Registers &now)
	{
		if (was_call_ && now.sp + 8 == last_.sp) {
			const uint64_t ra = *(const uint64_t *)now.sp;

			if (ra > last_.pc && ra - last_.pc <= 15)
				push(ra, now.sp, Kind::Call);
		}
		const bool switched = stack_of(now.sp) != stack_of(last_.sp);
		size_t dropped = 0;

		while (depth_ > 0 && left(records_[depth_ - 1], now.sp, switched)) {
			depth_--;
			dropped++;
		}
		// sp leaves a frame otherwise than by returning: who the caller is
		// gets clear when control follows.
		if (dropped && !was_return_)
			jumping_ = true;
		else if (jumping_ && (now.pc < last_.pc || now.pc - last_.pc > 15))
			jumping_ = false;
		last_ = now;
		note_instruction();
	}

	// The expected trace, the PC included. A return address is what lies in its
	// place now: the C++ runtime writes landing pads over them.
	size_t chain(uint64_t *pcs, size_t max) const
	{
		size_t count = 0;

		pcs[count++] = last_.pc;
		for (size_t i = depth_; i-- > 0 && count < max;) {
			const Entry &entry = records_[i];

			pcs[count++] = entry.kind == Kind::Call ? *(const uint64_t *)entry.slot
								: entry.pc;
		}
		return count;
	}

	// Between setting sp and jumping, as longjmp and the C++ runtime do.
	bool jumping() const { return jumping_; }
	size_t depth() const { return depth_; }
	bool overflowed() const { return overflowed_; }

private:
	enum class Kind { Base, Call, Interrupted };

	struct Entry {
		uint64_t pc, slot;
		Kind kind;
	};

	void push(uint64_t pc, uint64_t slot, Kind kind)
	{
		if (depth_ == max_depth) {
			overflowed_ = true;
			return;
		}
		records_[depth_++] = { pc, slot, kind };
	}

	int stack_of(uint64_t sp) const
	{
		for (size_t i = 0; i < stack_count_; i++)
			if (stacks_[i].holds(sp))
				return int(i);
		return -1;
	}

	bool left(const Entry &entry, uint64_t sp, bool switched) const
	{
		if (entry.kind == Kind::Base)
			return false;
		if (stack_of(entry.slot) != stack_of(sp))
			return switched;
		return entry.slot < sp;
	}

	// What the next instruction is, before it is executed.
	void note_instruction()
	{
		const uint8_t *p = (const uint8_t *)last_.pc;

		while (*p == 0x66 || *p == 0xf2 || *p == 0xf3 || *p == 0x2e || *p == 0x3e ||
		       (*p & 0xf0) == 0x40)
			p++;
		was_call_ = *p == 0xe8 || (*p == 0xff && (p[1] >> 3 & 7) == 2);
		was_return_ = *p == 0xc3 || *p == 0xc2 ||
			      (*p == 0x0f && p[1] == 0x05);	// or rt_sigreturn
	}

	Entry records_[max_depth];
	Range stacks_[max_stacks];
	size_t depth_ = 0, stack_count_ = 0;
	Registers last_ = {};
	bool was_call_ = false, was_return_ = false, jumping_ = false, overflowed_ = false;
};

} // namespace shadow
