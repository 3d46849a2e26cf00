// SPDX-License-Identifier: MIT
//
// System calls that our signal interrupted. With SA_RESTART the kernel itself
// restarts most of them; some always end with EINTR when a handler ran: sleeps,
// poll and its kin, pause, sigsuspend. A program that never sees a signal
// without us must not see these with us, so the handler sends the thread back
// into the call: the instruction before the interrupted one, the call's number
// in rax. Timeouts that the kernel does not count down itself are counted here.
#include <cerrno>
#include <cstring>
#include <linux/futex.h>
#include <poll.h>
#include "sampler.h"
#include "sys.h"

namespace sframe::record {

namespace {

// The number of the call, if the instructions before @pc are
// "mov $number, %eax; syscall", which is how libc makes the calls in question.
// The page of the system call has just been executed: it is readable.
long interrupted_call(uint64_t pc)
{
	unsigned char code[8];
	uint32_t number;

	if ((pc - sizeof(code)) / 4096 != (pc - 1) / 4096)
		return -1;
	memcpy(code, reinterpret_cast<const void *>(pc - sizeof(code)), sizeof(code));
	memcpy(&number, code + 2, sizeof(number));
	const bool rex = (code[0] & 0xf0) == 0x40;	// mov $number, %r8d
	if (code[6] != 0x0f || code[7] != 0x05 || code[1] != 0xb8 || rex)
		return -1;
	return number;
}

uint64_t to_ns(const timespec &t) { return t.tv_sec * UINT64_C(1000000000) + t.tv_nsec; }

// Is this the call that we sent back before?
bool again(ThreadSlot &slot, const greg_t *regs)
{
	const uint64_t pc = regs[REG_RIP], sp = regs[REG_RSP];
	const bool same = slot.restart_pc == pc && slot.restart_sp == sp;

	slot.restart_pc = pc;
	slot.restart_sp = sp;
	return same;
}

// Time left of a relative timeout. The first time the whole of it is left: the
// wait grows by less than one period in all.
uint64_t time_left(ThreadSlot &slot, const greg_t *regs, uint64_t timeout_ns)
{
	const uint64_t now = now_ns(CLOCK_MONOTONIC);

	if (!again(slot, regs) || slot.restart_deadline > now + timeout_ns)
		slot.restart_deadline = now + timeout_ns;
	return slot.restart_deadline > now ? slot.restart_deadline - now : 0;
}

// A timeout in milliseconds in register @reg.
void shorten_ms(ThreadSlot &slot, greg_t *regs, int reg)
{
	const int ms = static_cast<int>(regs[reg]);

	if (ms > 0)
		regs[reg] = (time_left(slot, regs, ms * UINT64_C(1000000)) + 999'999) / 1'000'000;
}

// A timeout by address in register @reg that the kernel leaves as it was.
void shorten_timespec(ThreadSlot &slot, greg_t *regs, int reg)
{
	timespec t;

	if (!regs[reg])
		return;
	memcpy(&t, reinterpret_cast<const void *>(regs[reg]), sizeof(t));
	const uint64_t left = time_left(slot, regs, to_ns(t));
	slot.restart_timeout = { static_cast<time_t>(left / 1000000000), static_cast<long>(left % 1000000000) };
	regs[reg] = reinterpret_cast<greg_t>(&slot.restart_timeout);
}

// Prepares the registers; false: leave the call alone.
bool prepare(ThreadSlot &slot, greg_t *regs, long number)
{
	switch (number) {
	case __NR_pause:
	case __NR_rt_sigsuspend:
	case __NR_select:	// these count down the caller's timeout
	case __NR_pselect6:
	case __NR_ppoll:
		return true;
	case __NR_poll:
		shorten_ms(slot, regs, REG_RDX);
		return true;
	case __NR_epoll_wait:
	case __NR_epoll_pwait:
		shorten_ms(slot, regs, REG_R10);
		return true;
#ifdef __NR_epoll_pwait2
	case __NR_epoll_pwait2:
		shorten_timespec(slot, regs, REG_R10);
		return true;
#endif
	case __NR_nanosleep:
		shorten_timespec(slot, regs, REG_RDI);
		return true;
	case __NR_clock_nanosleep:
		if (!(regs[REG_RSI] & TIMER_ABSTIME))
			shorten_timespec(slot, regs, REG_RDX);
		return true;
	case __NR_rt_sigtimedwait:
		shorten_timespec(slot, regs, REG_RDX);
		return true;
	case __NR_futex:
		if ((regs[REG_RSI] & FUTEX_CMD_MASK) == FUTEX_WAIT)
			shorten_timespec(slot, regs, REG_R10);
		return (regs[REG_RSI] & FUTEX_CMD_MASK) == FUTEX_WAIT ||
		       (regs[REG_RSI] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
	}
	return false;
}

// Another signal that will be delivered when this handler returns ends the
// call rightfully. (One that arrives between this look and the return restarts
// the call all the same: a fraction of a microsecond in each interruption, the
// race that pause() always has. Calls that take a signal mask are free of it.)
bool other_signal_waits(const ucontext_t *context)
{
	uint64_t pending = 0, blocked;

	memcpy(&blocked, &context->uc_sigmask, sizeof(blocked));
	sys::call(__NR_rt_sigpending, sys::arg(&pending), sizeof(pending));
	return pending & ~blocked & ~(UINT64_C(1) << (sampler.signo - 1));
}

} // namespace

void restart_interrupted(ThreadSlot &slot, ucontext_t *context)
{
	greg_t *const regs = context->uc_mcontext.gregs;

	// After a system call rcx holds the address behind it (the instruction puts it there).
	if (regs[REG_RAX] != -EINTR || regs[REG_RCX] != regs[REG_RIP])
		return;
	const long number = interrupted_call(regs[REG_RIP]);
	if (number < 0 || other_signal_waits(context) || !prepare(slot, regs, number))
		return;
	regs[REG_RAX] = number;
	regs[REG_RIP] -= 2;
}

} // namespace sframe::record
