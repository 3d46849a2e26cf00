// SPDX-License-Identifier: MIT
//
// The program's view of our signal. In the kernel the signal always has our
// handler and is never blocked; what the program asks for is kept beside and
// told back to it, so that programs which reset, block or wait for "all
// signals" behave as they do without us. The signal sent by somebody else
// goes where the program wants it.
//
// Should the program really wait for that signal number (block it, then be
// sent one), its thread gets it from the kernel as it would without us, and is
// not sampled from then on.
#include <cerrno>
#include <cstring>
#include <pthread.h>
#include <sys/signalfd.h>
#include "sampler.h"
#include "sys.h"

namespace sframe::record {

namespace {

struct sigaction wanted[2];	// what the program asked for; wanted[wanted_now] holds
unsigned int wanted_now;
uint64_t mask_had_ours;		// bit n-1: the program's sa_mask of signal n holds our signal

__attribute__((tls_model("initial-exec"))) thread_local bool blocked_by_program;
// The program was sent the signal while it blocked it: blocked in the kernel too.
__attribute__((tls_model("initial-exec"))) thread_local bool given_up;

using Sigaction = int(int, const struct sigaction *, struct sigaction *);
using Sigmask = int(int, const sigset_t *, sigset_t *);
Sigaction *next_sigaction;
Sigmask *next_sigprocmask, *next_pthread_sigmask;

bool ours(int sig) { return sampler.active && sig == sampler.signo; }

// rt_sigprocmask on the kernel's 64-bit sets: usable before and below libc.
uint64_t kernel_mask(int how, uint64_t set)
{
	uint64_t old = 0;

	sys::call(__NR_rt_sigprocmask, how, sys::arg(&set), sys::arg(&old), sizeof(set));
	return old;
}

uint64_t our_bit() { return UINT64_C(1) << (sampler.signo - 1); }

int change_mask(Sigmask *next, int how, const sigset_t *set, sigset_t *old)
{
	if (!sampler.active || given_up)
		return next(how, set, old);

	const bool before = blocked_by_program;
	bool named = false;
	sigset_t copy;
	if (set) {
		copy = *set;
		named = sigismember(&copy, sampler.signo) == 1;
		sigdelset(&copy, sampler.signo);
	}
	const int ret = next(how, set ? &copy : nullptr, old);
	if (ret)
		return ret;
	if (old && before)
		sigaddset(old, sampler.signo);
	if (set)
		switch (how) {
		case SIG_BLOCK:
			blocked_by_program = before || named;
			break;
		case SIG_UNBLOCK:
			blocked_by_program = before && !named;
			break;
		case SIG_SETMASK:
			blocked_by_program = named;
			break;
		}
	return 0;
}

// What a wait may take: everything but our timers' signals.
sigset_t without_ours(const sigset_t *set)
{
	sigset_t copy = *set;

	if (sampler.active && !given_up)
		sigdelset(&copy, sampler.signo);
	return copy;
}

bool from_our_timer(const siginfo_t &info)
{
	return ours(info.si_signo) && info.si_code == SI_TIMER &&
	       reinterpret_cast<ThreadSlot *>(info.si_value.sival_ptr) >= sampler.threads &&
	       reinterpret_cast<ThreadSlot *>(info.si_value.sival_ptr) < sampler.threads + MAX_THREADS;
}

// What the default action of a real-time signal is: the end of the process.
void die_of(int sig, ucontext_t *context)
{
	struct sigaction action = {};

	action.sa_handler = SIG_DFL;
	next_function(&next_sigaction, "sigaction")(sig, &action, nullptr);
	sigdelset(&context->uc_sigmask, sig);
	sys::call(__NR_tgkill, sys::call(__NR_getpid), sys::call(__NR_gettid), sig);
}

} // namespace

bool signal_blocked_by_program() { return blocked_by_program; }
void signal_set_blocked_by_program(bool blocked) { blocked_by_program = blocked; }

void signal_unblock()
{
	if (kernel_mask(SIG_UNBLOCK, our_bit()) & our_bit())
		blocked_by_program = true;
}

bool signals_init()
{
	struct sigaction action = {};

	action.sa_sigaction = on_signal;
	// On the alternate stack where a thread has one: its stack may be small.
	action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
	sigfillset(&action.sa_mask);
	return next_function(&next_sigaction, "sigaction") &&
	       next_sigaction(sampler.signo, &action, &wanted[0]) == 0;
}

// The signal, but not from a timer of ours.
void signal_forward(int sig, siginfo_t *info, void *context)
{
	ucontext_t *const uc = static_cast<ucontext_t *>(context);

	if (blocked_by_program) {
		given_up = true;
		sigaddset(&uc->uc_sigmask, sig);
		sys::call(__NR_rt_tgsigqueueinfo, sys::call(__NR_getpid), sys::call(__NR_gettid), sig,
			  sys::arg(info));
		return;
	}
	const struct sigaction action = wanted[__atomic_load_n(&wanted_now, __ATOMIC_ACQUIRE) & 1];
	if (!(action.sa_flags & SA_SIGINFO) && action.sa_handler == SIG_IGN)
		return;
	if (!(action.sa_flags & SA_SIGINFO) && action.sa_handler == SIG_DFL) {
		die_of(sig, uc);
		return;
	}
	uint64_t mask, extra;
	memcpy(&mask, &uc->uc_sigmask, sizeof(mask));
	memcpy(&extra, &action.sa_mask, sizeof(extra));
	const uint64_t before = kernel_mask(SIG_SETMASK, mask | extra | our_bit());
	if (action.sa_flags & SA_SIGINFO)
		action.sa_sigaction(sig, info, context);
	else
		action.sa_handler(sig);
	kernel_mask(SIG_SETMASK, before);
}

} // namespace sframe::record

using namespace sframe::record;

SAMPLER_EXPORT int sigaction(int sig, const struct sigaction *action, struct sigaction *old)
{
	if (!next_function(&next_sigaction, "sigaction"))
		return -1;
	if (ours(sig)) {
		const unsigned int now = __atomic_load_n(&wanted_now, __ATOMIC_ACQUIRE) & 1;
		if (old)
			*old = wanted[now];
		if (action) {
			wanted[!now] = *action;
			__atomic_store_n(&wanted_now, !now, __ATOMIC_RELEASE);
		}
		return 0;
	}
	if (!sampler.active || sig < 1 || sig >= NSIG)
		return next_sigaction(sig, action, old);

	// A handler that blocks all signals is sampled nevertheless.
	const uint64_t bit = UINT64_C(1) << (sig - 1);
	const bool had = __atomic_load_n(&mask_had_ours, __ATOMIC_RELAXED) & bit;
	struct sigaction copy;
	if (action) {
		copy = *action;
		sigdelset(&copy.sa_mask, sampler.signo);
	}
	const int ret = next_sigaction(sig, action ? &copy : nullptr, old);
	if (ret)
		return ret;
	if (old && had)
		sigaddset(&old->sa_mask, sampler.signo);
	if (action && sigismember(&action->sa_mask, sampler.signo) == 1)
		__atomic_fetch_or(&mask_had_ours, bit, __ATOMIC_RELAXED);
	else if (action)
		__atomic_fetch_and(&mask_had_ours, ~bit, __ATOMIC_RELAXED);
	return 0;
}

SAMPLER_EXPORT sighandler_t signal(int sig, sighandler_t handler)
{
	static sighandler_t (*next)(int, sighandler_t);

	if (ours(sig)) {
		struct sigaction action = {}, old;
		action.sa_handler = handler;
		action.sa_flags = SA_RESTART;
		sigaction(sig, &action, &old);
		return old.sa_handler;
	}
	return next_function(&next, "signal") ? next(sig, handler) : SIG_ERR;
}

SAMPLER_EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	if (!next_function(&next_sigprocmask, "sigprocmask"))
		return -1;
	return change_mask(next_sigprocmask, how, set, old);
}

SAMPLER_EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	if (!next_function(&next_pthread_sigmask, "pthread_sigmask"))
		return EINVAL;
	return change_mask(next_pthread_sigmask, how, set, old);
}

SAMPLER_EXPORT int sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
	static int (*next)(const sigset_t *, siginfo_t *, const struct timespec *);
	siginfo_t local;

	if (!next_function(&next, "sigtimedwait"))
		return -1;
	for (;;) {
		const bool was_given_up = given_up;
		const sigset_t copy = without_ours(set);
		const int sig = next(&copy, &local, timeout);
		if (sig > 0 && from_our_timer(local))
			continue;
		if (sig < 0 && errno == EINTR && given_up != was_given_up)
			continue;
		if (sig > 0 && info)
			*info = local;
		return sig;
	}
}

SAMPLER_EXPORT int sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
	return sigtimedwait(set, info, nullptr);
}

SAMPLER_EXPORT int sigwait(const sigset_t *set, int *sig)
{
	int got;

	do
		got = sigtimedwait(set, nullptr, nullptr);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return errno;
	*sig = got;
	return 0;
}

SAMPLER_EXPORT int signalfd(int fd, const sigset_t *set, int flags)
{
	static int (*next)(int, const sigset_t *, int);

	if (!next_function(&next, "signalfd"))
		return -1;
	const sigset_t copy = without_ours(set);
	return next(fd, &copy, flags);
}
