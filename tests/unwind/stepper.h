// SPDX-License-Identifier: MIT
//
// Single-steps a function of this process and unwinds at every instruction.
//
// The tracer is a child that shares the address space (CLONE_VM) and traces
// its parent: it reads the very registry and the very stack, calls
// sframe_unwind() on the registers that the kernel reports, and compares the
// chain with the shadow record. While the parent may be stopped inside of
// malloc or with any lock held, the tracer touches nothing of libc.
#pragma once

#include "shadow.h"
#include <sframe/unwind.h>

#include <functional>
#include <string>

struct StepFailure {
	uint64_t step;
	int stop;
	size_t got_count, expected_count;
	uint64_t got[24], expected[24];
};

struct StepReport {
	bool ran;			// false: why_not says why
	int why_not;			// -errno of ptrace
	uint64_t steps;
	uint64_t complete;		// the whole chain, to the outermost frame
	uint64_t missing[SFRAME_STOP_COUNT];	// right as far as it goes
	uint64_t jumping;		// compared leniently: sp is set, control not yet
	uint64_t wrong;
	uint64_t frames_sframe, frames_fp, frames_signal;
	uint64_t threads, signals;
	bool overflowed;
	size_t failures;
	StepFailure failure[8];
	StepFailure first_missing[SFRAME_STOP_COUNT];

	uint64_t missing_total() const
	{
		uint64_t sum = 0;
		for (uint64_t n : missing)
			sum += n;
		return sum;
	}
	// For people: counts, and each failure with symbols.
	std::string text() const;
};

// Runs @body under the stepper, on the calling thread. @stacks: ranges of
// alternate signal stacks that @body uses.
StepReport step_through(void (*body)(), const shadow::Range *stacks = nullptr, size_t count = 0);
