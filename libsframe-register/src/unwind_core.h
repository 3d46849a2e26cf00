// SPDX-License-Identifier: MIT
//
// The core as the unwinder includes it: bytes of a registered section are
// plain memory, everything else is a stack of which nothing is known.
#pragma once

#include "memory.h"
#include <sframe/unwind.h>

namespace sframe {

// What a walk reads from: the run of pages around its first frame, and one
// elsewhere (what a signal interrupted when its handler has a stack of its own).
class Stack {
public:
	// @known: the packed window of an earlier walk of this thread, or 0.
	Stack(const sframe_regs &regs, uint64_t known) : regs_(regs), known_(Window::unpack(known))
	{
		if (known_.near(regs.reg[7]))
			here_ = known_;
	}

	// The window that holds @sp, if any does.
	const Window &around(uint64_t sp) const
	{
		return elsewhere_.covers(sp, 1) ? elsewhere_ : here_;
	}

	bool covers(uint64_t addr, uint64_t len)
	{
		if (here_.covers(addr, len) || elsewhere_.covers(addr, len))
			return true;
		if (here_.near(addr) || here_.empty())
			return here_.reach(addr, len, known_);
		return elsewhere_.reach(addr, len, known_);
	}

	bool word(uint64_t addr, uint64_t *value)
	{
		if (!covers(addr, sizeof(*value)))
			return false;
		*value = raw_word(addr);
		return true;
	}

	bool bytes(uint64_t addr, uint8_t *dst, uint64_t len)
	{
		if (!covers(addr, len))
			return false;
		for (uint64_t i = 0; i < len; i++)
			dst[i] = raw_byte(addr + i);
		return true;
	}

	// Instruction bytes: in a window of their own, not to lose the stack's.
	bool code(uint64_t addr, uint8_t *dst, uint64_t len)
	{
		if (!code_.covers(addr, len)) {
			code_ = Window();
			if (!code_.reach(addr, len, Window()))
				return false;
		}
		for (uint64_t i = 0; i < len; i++)
			dst[i] = raw_byte(addr + i);
		return true;
	}

	bool reg(unsigned int regno, uint64_t *value) const
	{
		if (regno >= SFRAME_REGS_COUNT || !(regs_.valid >> regno & 1))
			return false;
		*value = regs_.reg[regno];
		return true;
	}

private:
	const sframe_regs &regs_;
	const Window known_;
	Window here_, elsewhere_, code_;
};

// io is the walk's Stack, or null for the bytes of a section.
inline int core_read(void *io, void *dst, uint64_t addr, uint64_t len)
{
	if (!io) {
		__builtin_memcpy(dst, (const void *)(uintptr_t)addr, len);
		return 0;
	}
	return static_cast<Stack *>(io)->bytes(addr, static_cast<uint8_t *>(dst), len) ? 0 : -1;
}

inline int core_reg(void *io, unsigned int regno, uint64_t *value)
{
	return io && static_cast<Stack *>(io)->reg(regno, value) ? 0 : -1;
}

} // namespace sframe

#define SFRAME_CORE_READ(io, dst, addr, len) sframe::core_read(io, dst, addr, len)
#define SFRAME_CORE_REG(io, regno, value) sframe::core_reg(io, regno, value)
#include "registry.h"
