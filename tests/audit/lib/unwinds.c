/* SPDX-License-Identifier: MIT */
/* Unwinds in its constructor, where dlopen() is on the stack. */
#include <sframe/register.h>
#include <sframe/unwind.h>

int complete_in_constructor(void);

static int complete;

__attribute__((constructor)) static void begin(void)
{
	uint64_t pcs[128];
	struct sframe_trace trace = { .size = sizeof(trace) };

	/* Under the preloaded shim objects are registered when dlopen() returns. */
	sframe_register_loaded();
	sframe_backtrace(pcs, 128, &trace);
	complete = trace.stop == SFRAME_STOP_OUTERMOST && trace.frames_fp == 0;
}

int complete_in_constructor(void) { return complete; }
