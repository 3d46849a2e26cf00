// SPDX-License-Identifier: MIT
//
// The writers' lock, what happens to it across fork(), and the readers' count.
//
// The lock is a futex in a page that the kernel wipes on fork: a child finds it
// free, whatever the parent's threads were doing. Everything else is copied as
// it stood. A thread's stores reach the child in the order they were made, so
// the child knows from `writing` whether it inherited an update half done.
#include "export.h"
#include "registry.h"
#include "registry_state.h"
#include "sys.h"

#include <linux/futex.h>
#include <signal.h>
#include <time.h>

namespace sframe {

namespace {

// A reader that takes longer is stopped, or dead with its process: what is
// about to be unmapped is then on its own, as without the count.
constexpr uint32_t no_token = ~0u;

constexpr int wait_rounds = 1000;
constexpr long wait_nanoseconds = 100'000;

constexpr uint64_t signal_bit(int signal) { return UINT64_C(1) << (signal - 1); }

// All but those that an instruction raises: blocked, they would kill. A sandbox
// serves system calls from its SIGSYS handler.
uint64_t block_signals()
{
	const uint64_t all = ~(signal_bit(SIGSYS) | signal_bit(SIGSEGV) | signal_bit(SIGBUS) |
			       signal_bit(SIGILL) | signal_bit(SIGFPE) | signal_bit(SIGTRAP));
	uint64_t before = 0;

	sys::call(__NR_rt_sigprocmask, SIG_SETMASK, sys::arg(&all), sys::arg(&before), 8);
	return before;
}

void restore_signals(uint64_t mask)
{
	sys::call(__NR_rt_sigprocmask, SIG_SETMASK, sys::arg(&mask), 0, 8);
}

// Kernels before 4.14 cannot wipe. There a page that names another process is
// taken for inherited. (A child that shares our memory is then taken for a
// forked one: it repairs what is whole, which costs time only.)
void wipe_by_hand(Control *c, Guard *guard)
{
	uint32_t owner = acquire(&guard->pid);
	const uint32_t self = (uint32_t)sys::call(__NR_getpid);

	if (c->wipes || owner == self ||
	    !__atomic_compare_exchange_n(&guard->pid, &owner, self, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		return;
	for (auto &stripe : guard->stripe)
		stripe.inside[0] = stripe.inside[1] = 0;
	release(&guard->alive, UINT32_C(0));
	release(&guard->lock, UINT32_C(0));
}

void take(Control *c)
{
	Guard *guard = guard_of(c);
	uint32_t expected = 0;

	wipe_by_hand(c, guard);
	if (__atomic_compare_exchange_n(&guard->lock, &expected, 1, false, __ATOMIC_ACQUIRE,
					__ATOMIC_RELAXED))
		return;
	while (__atomic_exchange_n(&guard->lock, 2, __ATOMIC_ACQUIRE) != 0)
		sys::call(__NR_futex, sys::arg(&guard->lock), FUTEX_WAIT_PRIVATE, 2, 0);
}

void give(Control *c)
{
	Guard *guard = guard_of(c);

	if (__atomic_exchange_n(&guard->lock, 0, __ATOMIC_RELEASE) == 2)
		sys::call(__NR_futex, sys::arg(&guard->lock), FUTEX_WAKE_PRIVATE, 1);
}

// First writer of a forked child: the mirror is the parent's, and an update may
// have been cut off in the middle.
void after_fork(Control *c)
{
	Guard *guard = guard_of(c);

	export_forget(c);
	if (c->writing)
		registry_repair(c);
	release(&c->writing, UINT32_C(0));
	release(&guard->pid, (uint32_t)sys::call(__NR_getpid));
	release(&guard->alive, UINT32_C(1));
}

// Readers of one thread meet in one cache line, those of others mostly elsewhere.
unsigned int stripe_of_this_thread()
{
	const auto page = (uint32_t)((uint64_t)__builtin_frame_address(0) >> 12);

	return page * 2654435769u >> 29;
}

bool parity_empty(const Guard *guard, unsigned int parity, unsigned int stripe)
{
	return __atomic_load_n(&guard->stripe[stripe].inside[parity], __ATOMIC_SEQ_CST) <= 0;
}

void wait_for_parity(const Guard *guard, unsigned int parity, int *rounds)
{
	const struct timespec pause = { 0, wait_nanoseconds };

	for (unsigned int stripe = 0; stripe < reader_stripes; stripe++)
		while (!parity_empty(guard, parity, stripe)) {
			if (*rounds <= 0)
				return;
			// Most readers are gone within a microsecond or on another turn.
			if ((*rounds)-- > wait_rounds - 10)
				sys::call(__NR_sched_yield);
			else
				sys::call(__NR_nanosleep, sys::arg(&pause), 0);
		}
}

} // namespace

WriterLock::WriterLock(Control *c) : control(c), mask(block_signals())
{
	take(c);
	if (!acquire(&guard_of(c)->alive))
		after_fork(c);
	release(&c->writing, UINT32_C(1));
}

WriterLock::~WriterLock()
{
	release(&control->writing, UINT32_C(0));
	give(control);
	restore_signals(mask);
}

bool registry_fork_prepare(uint64_t *mask)
{
	Control *c = registry_control(false);

	if (!c)
		return false;
	*mask = block_signals();
	take(c);
	if (!acquire(&guard_of(c)->alive))
		after_fork(c);
	return true;
}

void registry_fork_parent(uint64_t mask)
{
	give(registry_control(false));
	restore_signals(mask);
}

// The lock went with the page.
void registry_fork_child(uint64_t mask)
{
	Control *c = registry_control(false);

	wipe_by_hand(c, guard_of(c));
	restore_signals(mask);
}

// A reader that comes in later sees the index without what was removed: its
// increment comes after the loads of the count, and they after the publication.
// So it suffices to see each counter at zero once. The parity turns so that a
// stream of new readers cannot keep one counter up.
void registry_wait_for_readers(Control *c)
{
	Guard *guard = guard_of(c);
	int rounds = wait_rounds;

	for (int turn = 0; turn < 2; turn++) {
		const uint32_t old = __atomic_fetch_add(&guard->epoch, 1, __ATOMIC_SEQ_CST);

		wait_for_parity(guard, old & 1, &rounds);
	}
}

uint32_t registry_read_enter()
{
	Control *c = registry_control(false);

	if (!c)
		return no_token;
	Guard *guard = guard_of(c);
	const unsigned int stripe = stripe_of_this_thread();
	const unsigned int parity = __atomic_load_n(&guard->epoch, __ATOMIC_RELAXED) & 1;
	__atomic_fetch_add(&guard->stripe[stripe].inside[parity], 1, __ATOMIC_SEQ_CST);
	return stripe << 1 | parity;
}

// A signal handler may fork between enter and leave: the child's counters are
// wiped and there is nothing to take back.
void registry_read_leave(uint32_t token)
{
	if (token == no_token)
		return;
	int32_t *inside = &guard_of(registry_control(false))->stripe[token >> 1].inside[token & 1];
	int32_t n = __atomic_load_n(inside, __ATOMIC_RELAXED);

	while (n > 0 && !__atomic_compare_exchange_n(inside, &n, n - 1, true, __ATOMIC_RELEASE,
						     __ATOMIC_RELAXED))
		;
}

} // namespace sframe
