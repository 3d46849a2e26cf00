/* SPDX-License-Identifier: MIT */
/*
 * Unwinding in user space, by the same core that the kernel compiles.
 *
 * Example: a stack trace from a signal handler.
 *
 *	static void on_signal(int sig, siginfo_t *info, void *context)
 *	{
 *		uint64_t pcs[128];
 *		struct sframe_regs regs;
 *		struct sframe_trace trace = { .size = sizeof(trace) };
 *
 *		sframe_regs_from_ucontext(&regs, context);
 *		int n = sframe_unwind(&regs, pcs, 128, 0, &trace);
 *		note(pcs, n, trace.stop == SFRAME_STOP_OUTERMOST);
 *	}
 *
 * Objects are found in the process's registry (<sframe/register.h>): call
 * sframe_register_loaded() first, or run under libsframe-audit.so.
 *
 * Both calls are async-signal-safe and thread-safe: no lock, no allocation, no
 * call into ld.so.
 */
#ifndef SFRAME_UNWIND_H
#define SFRAME_UNWIND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Registers by DWARF number (x86-64: 0 rax, 6 rbp, 7 rsp, ..., 16 rip). */
#define SFRAME_REGS_COUNT 17

struct sframe_regs {
	uint64_t reg[SFRAME_REGS_COUNT];
	uint32_t valid;			/* bit n: reg[n] is known; rip, rsp, rbp must be */
	uint32_t exact;			/* 1: rip is where execution is; 0: a return address */
};

/* Why a walk ended. */
enum sframe_stop {
	SFRAME_STOP_OUTERMOST = 0,	/* the information says: no caller. Complete. */
	SFRAME_STOP_DEPTH,		/* the caller's array is full */
	SFRAME_STOP_NOT_COVERED,	/* no information for a PC, and no frame pointer that holds */
	SFRAME_STOP_CORRUPT,
	SFRAME_STOP_UNREADABLE,
	SFRAME_STOP_UNSUPPORTED_REG,	/* the rule needs a register lost by deeper frames */
	SFRAME_STOP_NO_PROGRESS,
	SFRAME_STOP_ZERO_RA,		/* return address 0: a bottom nobody described */
	SFRAME_STOP_BUSY,		/* registry lookup gave up (counted there) */
	SFRAME_STOP_COUNT,
};

const char *sframe_stop_name(int stop);

struct sframe_trace {
	size_t size;			/* sizeof(struct sframe_trace) */
	uint32_t stop;			/* enum sframe_stop */
	uint32_t frames_sframe;		/* steps taken by SFrame rows */
	uint32_t frames_fp;		/* steps taken by frame pointer */
	uint32_t frames_signal;		/* signal frames crossed (also counted in frames_sframe) */
	uint64_t stop_pc;		/* PC of the frame that had no caller */
};

#define SFRAME_UNWIND_NO_FP	0x1u	/* SFrame only: never fall back to frame pointers */
#define SFRAME_UNWIND_CHECKED	0x2u	/* no thread-local state: for contexts without TLS */

/*
 * The calling thread's stack, from the caller of sframe_backtrace() on.
 * @pcs: receives return addresses, innermost first (a return address may be
 * the first byte behind its function). Returns how many; @trace may be NULL.
 */
int sframe_backtrace(uint64_t *pcs, size_t max, struct sframe_trace *trace);

/*
 * From a register set: pcs[0] is regs->reg[16]. The stack is that of the
 * calling process. -EINVAL: unknown flags, or rip, rsp or rbp not valid.
 */
int sframe_unwind(const struct sframe_regs *regs, uint64_t *pcs, size_t max, unsigned int flags,
		  struct sframe_trace *trace);

/* All registers of a ucontext_t that the kernel made (x86-64). Async-signal-safe. */
void sframe_regs_from_ucontext(struct sframe_regs *regs, const void *ucontext);

#ifdef __cplusplus
}
#endif
#endif
