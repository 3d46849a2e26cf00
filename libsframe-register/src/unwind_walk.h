// SPDX-License-Identifier: MIT
//
// The walk behind sframe_unwind() and sframe_backtrace().
#pragma once

#include "unwind_core.h"

namespace sframe {

// @window: where the thread keeps what it knows of its stack, or null.
int unwind_walk(const sframe_regs &regs, uint64_t *pcs, size_t max, unsigned int flags,
		sframe_trace *trace, std::atomic<uint64_t> *window);

// The calling thread's window. Null in the embeddable archive, which has no
// thread-local storage; the shared library overrides it.
std::atomic<uint64_t> *unwind_thread_window();

// What the registry and a section say about the row at @pc (SFRAME_OK,
// SFRAME_NOT_COVERED, ...); -EBUSY if the registry gave up.
int unwind_find_row(uint64_t pc, sframe_row *row);

// Does a call instruction end at @ra? Every return address is behind one, except
// into a signal's restorer; prefixes (REX, notrack) do not matter.
bool unwind_behind_call(uint64_t ra, Stack &stack);

// One step by frame pointer, for a PC that no section covers. Changes @frame
// only if the caller it finds holds up; see unwind_fp.cc.
bool unwind_fp_step(sframe_frame *frame, Stack &stack);

} // namespace sframe
