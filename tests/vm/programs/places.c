/* SPDX-License-Identifier: MIT */
/*
 * places WHERE ROUNDS: burns time where unwinders go wrong.
 *
 *	handler		in a signal handler on an alternate stack, which interrupted interrupted()
 *	nested		in a handler that interrupted a handler
 *	vdso		in clock_gettime of the vDSO
 *	plt		in calls through the PLT, so also in its stubs
 *	edges		in functions of one instruction, which is their first and last
 *
 * The process takes the place's name, so that one recording can hold several.
 */
#include "spin.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

unsigned long library_empty(unsigned long n);

static volatile unsigned long sink;

__attribute__((noinline, noclone)) static void burn(void)
{
	unsigned long x = sink | 1;
	for (int i = 0; i < 20000; i++)
		x = x * 6364136223846793005UL + 1442695040888963407UL;
	sink = x;
}

__attribute__((noinline, noclone)) static void in_handler(void)
{
	burn();
	sink++;
}

static void outer_handler(int signal)
{
	(void)signal;
	raise(SIGUSR2);
	sink++;
}

static void inner_handler(int signal)
{
	(void)signal;
	in_handler();
	sink++;
}

__attribute__((noinline, noclone)) static void interrupted(int signal)
{
	syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signal);
	sink++;
}

__attribute__((noinline, noclone)) static void time_of_day(void)
{
	struct timespec now;
	for (int i = 0; i < 200; i++)
		clock_gettime(CLOCK_MONOTONIC, &now);
	sink += (unsigned long)now.tv_nsec;
}

__attribute__((noinline, noclone)) static void through_plt(void)
{
	unsigned long sum = 0;
	for (unsigned long i = 0; i < 2000; i++)
		sum += library_empty(i);
	sink += sum;
}

/* A body of one instruction, `ret`: a caller's view of it is the entry's. */
void edge_ret(void);
/* Ends in a call that does not return here: its return address is another function's. */
void edge_call(void);
__asm__(".text\n"
	".p2align 4\n"
	".globl edge_ret\n"
	".type edge_ret, @function\n"
	"edge_ret:\n"
	".cfi_startproc\n"
	"	ret\n"
	".cfi_endproc\n"
	".size edge_ret, . - edge_ret\n"
	".globl edge_call\n"
	".type edge_call, @function\n"
	"edge_call:\n"
	".cfi_startproc\n"
	"	sub $24, %rsp\n"
	".cfi_adjust_cfa_offset 24\n"
	"	call edge_noreturn\n"
	".cfi_endproc\n"
	".size edge_call, . - edge_call\n"
	/* Where edge_call's call would return to: its rules would find a wrong caller. */
	".globl edge_behind\n"
	".type edge_behind, @function\n"
	"edge_behind:\n"
	".cfi_startproc\n"
	"	ret\n"
	".cfi_endproc\n"
	".size edge_behind, . - edge_behind\n");

static void *landing[5];

__attribute__((noinline, noclone, used)) void edge_noreturn(void);
__attribute__((noinline, noclone, used)) void edge_noreturn(void)
{
	burn();
	__builtin_longjmp(landing, 1);
}

__attribute__((noinline, noclone)) static void edges(void)
{
	for (int i = 0; i < 20000; i++)
		edge_ret();
	if (__builtin_setjmp(landing) == 0)
		edge_call();
	sink++;
}

int main(int argc, char **argv)
{
	int rounds = argc == 3 ? atoi(argv[2]) : 0;
	if (rounds <= 0) {
		fprintf(stderr, "usage: places handler|nested|vdso|plt|edges ROUNDS\n");
		return 2;
	}
	prctl(PR_SET_NAME, argv[1]);
	stack_t stack = { .ss_sp = malloc(65536), .ss_size = 65536 };
	sigaltstack(&stack, NULL);
	struct sigaction action = { .sa_flags = SA_ONSTACK };
	action.sa_handler = inner_handler;
	sigaction(SIGUSR2, &action, NULL);
	action.sa_handler = outer_handler;
	sigaction(SIGUSR1, &action, NULL);

	for (int i = 0; i < rounds; i++) {
		if (!strcmp(argv[1], "handler"))
			interrupted(SIGUSR2);
		else if (!strcmp(argv[1], "nested"))
			interrupted(SIGUSR1);
		else if (!strcmp(argv[1], "vdso"))
			time_of_day();
		else if (!strcmp(argv[1], "plt"))
			through_plt();
		else
			edges();
	}
	return 0;
}
