// SPDX-License-Identifier: MIT
//
// Frame pointers, where no section covers a PC: code of a JIT that keeps them
// (V8, OpenJDK with PreserveFramePointer, LuaJIT's VM), assembly without CFI.
//
// rbp may as well be an ordinary register there, so that what it points to is
// believed only if everything about it looks like a frame:
//  - rbp is aligned, at or above sp, within a stack's reach of it, readable;
//  - the return address is user-space code directly behind a call instruction;
//  - so is the PC of the frame itself, unless it was interrupted there;
//  - and the caller, in turn, has a caller like that (by its SFrame row, or by
//    its own frame pointer), or is outermost.
// Whether memory is executable costs a walk of /proc/self/maps to know. A
// registered range is known to be; elsewhere the bytes of a call instruction in
// front of two return addresses in a row have to do.
#include "unwind_walk.h"

namespace sframe {
namespace {

constexpr uint64_t lowest_code = 65536;		// vm.mmap_min_addr
constexpr uint64_t farthest = 16 << 20;		// a frame larger than this is none

// Length of the instruction FF /2 (call r/m) whose ModRM and SIB are given; 0 if it is no call.
unsigned indirect_call_length(uint8_t modrm, uint8_t sib)
{
	const unsigned mod = modrm >> 6, reg = modrm >> 3 & 7, rm = modrm & 7;

	if (reg != 2)
		return 0;
	if (mod == 3)
		return 2;
	unsigned length = 2;
	if (rm == 4) {
		length++;
		if (mod == 0 && (sib & 7) == 5)
			length += 4;
	} else if (mod == 0 && rm == 5) {
		length += 4;
	}
	return length + (mod == 1 ? 1 : mod == 2 ? 4 : 0);
}

// Could the words at rbp be a saved rbp and a return address?
bool frame_at(uint64_t fp, uint64_t sp, Stack &stack, sframe_frame *caller)
{
	sframe_frame next = {};

	if (fp % 8 != 0 || fp < sp || fp - sp > farthest)
		return false;
	if (!stack.word(fp, &next.fp) || !stack.word(fp + 8, &next.pc))
		return false;
	next.sp = fp + 16;
	*caller = next;
	return unwind_behind_call(next.pc, stack);
}

// Could the word at @slot be the return address of a function that has not
// touched rbp yet, or has restored it?
bool return_at(uint64_t slot, uint64_t fp, Stack &stack, sframe_frame *caller)
{
	sframe_frame next = {};

	if (!stack.word(slot, &next.pc))
		return false;
	next.sp = slot + 8;
	next.fp = fp;
	*caller = next;
	return unwind_behind_call(next.pc, stack);
}

// An interrupted PC may lie where rbp is not this function's: in front of
// `push %rbp; mov %rsp,%rbp`, between the two, or at the return.
bool step_interrupted(const sframe_frame &frame, Stack &stack, sframe_frame *caller)
{
	uint8_t b[8];
	uint64_t fp;

	// A jump to nowhere: execution is where the call put it, RA on top of the stack.
	if (!stack.code(frame.pc, b, 1))
		return return_at(frame.sp, frame.fp, stack, caller);
	if (!stack.code(frame.pc, b, sizeof(b)))
		return frame_at(frame.fp, frame.sp, stack, caller);

	const bool marked = b[0] == 0xf3 && b[1] == 0x0f && b[2] == 0x1e && b[3] == 0xfa;
	const uint8_t *insn = marked ? b + 4 : b;	// endbr64

	if (insn[0] == 0x55 || insn[0] == 0xc3 || insn[0] == 0xc2)
		return return_at(frame.sp, frame.fp, stack, caller);
	if ((b[0] == 0x48 && b[1] == 0x89 && b[2] == 0xe5) ||
	    (b[0] == 0x48 && b[1] == 0x8b && b[2] == 0xec))
		return stack.word(frame.sp, &fp) &&
		       return_at(frame.sp + 8, fp, stack, caller);
	return frame_at(frame.fp, frame.sp, stack, caller);
}

// Does @frame, found by frame pointer, have a caller itself?
bool holds_up(const sframe_frame &frame, Stack &stack)
{
	sframe_frame next = frame;
	sframe_row row;
	int status = unwind_find_row(frame.pc - 1, &row);

	if (status == SFRAME_NOT_COVERED)
		return frame.fp == 0 || frame_at(frame.fp, frame.sp, stack, &next);
	if (status)
		return false;
	status = sframe_row_apply(&row, &next, &stack);
	if (status == SFRAME_OUTERMOST || status == SFRAME_UNSUPPORTED_REG)
		return true;
	if (status)
		return false;
	// What a signal interrupted, or a bottom nobody described, is behind no call.
	return row.signal || next.pc == 0 || unwind_behind_call(next.pc, stack);
}

} // namespace

bool unwind_behind_call(uint64_t ra, Stack &stack)
{
	constexpr unsigned longest = 7;
	uint8_t b[longest] = {};

	if (ra < lowest_code || ra >= user_end)
		return false;
	if (!stack.code(ra - longest, b, longest)) {
		// The call may be the first instruction of a mapping.
		const uint64_t here = ra - page_of(ra - 1);

		if (here >= longest || !stack.code(ra - here, b + longest - here, here))
			return false;
	}
	// call rel32, also where a debugger or a uprobe has put its breakpoint
	if (b[longest - 5] == 0xe8 || b[longest - 5] == 0xcc)
		return true;
	for (unsigned length = 2; length <= longest; length++) {
		const uint8_t *at = b + longest - length;

		if (at[0] == 0xff && indirect_call_length(at[1], length > 2 ? at[2] : 0) == length)
			return true;
	}
	return false;
}

bool unwind_fp_step(sframe_frame *frame, Stack &stack)
{
	sframe_frame caller;

	if (frame->exact) {
		if (!step_interrupted(*frame, stack, &caller))
			return false;
	} else if (!unwind_behind_call(frame->pc, stack) ||
		   !frame_at(frame->fp, frame->sp, stack, &caller)) {
		return false;
	}
	if (!holds_up(caller, stack))
		return false;
	*frame = caller;
	return true;
}

} // namespace sframe
