/* SPDX-License-Identifier: MIT */
/* A C program of a user: registers what is loaded, then asks where it is. */
#include <stdio.h>
#include <stdint.h>
#include <string.h>
#include <sframe/register.h>
#include <sframe/registry.h>
#include <sframe/unwind.h>

static uint64_t pcs[64];
static struct sframe_trace trace = { .size = sizeof(trace) };

__attribute__((noinline)) static int inner(void)
{
	int n = sframe_backtrace(pcs, 64, &trace);

	__asm__ volatile("");	/* no tail call */
	return n;
}

__attribute__((noinline)) static int outer(void)
{
	int n = inner();

	__asm__ volatile("");
	return n;
}

int main(void)
{
	struct sframe_range range = { .size = sizeof(range) };
	int n = sframe_register_loaded(), err;

	if (n < 1) {
		fprintf(stderr, "sframe_register_loaded: %d (%s)\n", n, n < 0 ? strerror(-n) : "nothing");
		return 1;
	}
	err = sframe_find((uintptr_t)main, &range);
	if (err) {
		fprintf(stderr, "main is not covered: %s\n", strerror(-err));
		return 1;
	}
	n = outer();
	/* inner, outer, main, libc's two, _start */
	if (n < 5 || trace.stop != SFRAME_STOP_OUTERMOST || trace.frames_fp != 0) {
		fprintf(stderr, "%d frames, stopped: %s, by frame pointer: %u\n", n,
			sframe_stop_name((int)trace.stop), trace.frames_fp);
		return 1;
	}
	for (int i = 0; i < 3; i++)
		if (pcs[i] < range.text_start || pcs[i] >= range.text_end) {
			fprintf(stderr, "frame %d is not in this program\n", i);
			return 1;
		}
	return 0;
}
