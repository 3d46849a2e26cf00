// SPDX-License-Identifier: MIT
//
// What a thread knows of its own stack from one walk to the next: two numbers
// in one word of thread-local storage, so that a walk over memory that an
// earlier one has seen makes no system call. Initial-exec: an access is one
// instruction, and nothing is allocated in a signal handler.
#include "unwind_walk.h"

namespace sframe {

static thread_local constinit std::atomic<uint64_t> stack_window
	__attribute__((tls_model("initial-exec"))){0};

std::atomic<uint64_t> *unwind_thread_window() { return &stack_window; }

} // namespace sframe
