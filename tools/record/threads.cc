// SPDX-License-Identifier: MIT
//
// A timer for each thread, on that thread's own clock, whose signal goes to
// that thread. Timers end by themselves at exec and are not inherited by fork;
// at a thread's end its timer is deleted by a destructor of pthread keys,
// which runs however the thread ends.
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <threads.h>
#include <fcntl.h>
#include "sampler.h"
#include "sys.h"

namespace sframe::record {

namespace {

pthread_key_t slot_key;
uint32_t timers;		// armed now
uint32_t timers_max;		// of RLIMIT_SIGPENDING; the rest is the program's
uint32_t next_slot;

void on_thread_exit(void *slot) { thread_stop(*static_cast<ThreadSlot *>(slot)); }

// The kernel's encoding of "CPU time of thread tid".
clockid_t thread_clock(uint32_t tid)
{
	constexpr unsigned int PER_THREAD = 4, SCHED = 2;
	return static_cast<clockid_t>((~tid << 3) | PER_THREAD | SCHED);
}

ThreadSlot *take_slot(uint32_t tid)
{
	for (uint32_t tries = 0; tries < MAX_THREADS; tries++) {
		ThreadSlot *const slot = &sampler.threads[__atomic_fetch_add(&next_slot, 1, __ATOMIC_RELAXED) %
							  MAX_THREADS];
		uint32_t free = 0;
		if (__atomic_load_n(&slot->tid, __ATOMIC_RELAXED) == 0 &&
		    __atomic_compare_exchange_n(&slot->tid, &free, tid, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return slot;
	}
	return nullptr;
}

void release_slot(ThreadSlot &slot)
{
	slot.restart_pc = 0;
	__atomic_store_n(&slot.tid, 0, __ATOMIC_RELEASE);
}

// Where in its period a thread begins: at random, so that threads that live
// shorter than a period are sampled in proportion too.
uint64_t first_expiry(uint32_t tid)
{
	uint64_t x = now_ns(CLOCK_MONOTONIC) * UINT64_C(0x9e3779b97f4a7c15) + tid;

	x ^= x >> 29;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	x ^= x >> 32;
	return 1 + x % sampler.period_ns;
}

bool start_timer(ThreadSlot &slot)
{
	sigevent event = {};
	const uint32_t tid = slot.tid;

	event.sigev_notify = SIGEV_THREAD_ID;
	event.sigev_signo = sampler.signo;
	event.sigev_value.sival_ptr = &slot;
	event._sigev_un._tid = static_cast<pid_t>(tid);
	const clockid_t clock = sampler.wall ? CLOCK_MONOTONIC : thread_clock(tid);
	if (sys::call(__NR_timer_create, clock, sys::arg(&event), sys::arg(&slot.timer)) < 0)
		return false;

	const uint64_t first = first_expiry(tid), period = sampler.period_ns;
	itimerspec spec = {};
	spec.it_value = { static_cast<time_t>(first / 1000000000), static_cast<long>(first % 1000000000) };
	spec.it_interval = { static_cast<time_t>(period / 1000000000),
			     static_cast<long>(period % 1000000000) };
	if (sys::call(__NR_timer_settime, slot.timer, 0, sys::arg(&spec)) < 0) {
		sys::call(__NR_timer_delete, slot.timer);
		return false;
	}
	return true;
}

ThreadSlot *arm(uint32_t tid)
{
	ring_header *const header = sampler.ring.header;
	ThreadSlot *slot = nullptr;

	if (__atomic_add_fetch(&timers, 1, __ATOMIC_RELAXED) <= timers_max) {
		slot = take_slot(tid);
		if (slot && !start_timer(*slot)) {
			release_slot(*slot);
			slot = nullptr;
		}
	}
	if (!slot) {
		__atomic_fetch_sub(&timers, 1, __ATOMIC_RELAXED);
		ring_count(&header->unsampled_threads);
		return nullptr;
	}
	ring_count(&header->threads);
	return slot;
}

void arm_self()
{
	signal_unblock();
	if (ThreadSlot *slot = arm(sys::call(__NR_gettid)))
		pthread_setspecific(slot_key, slot);
}

bool armed(uint32_t tid)
{
	for (uint32_t i = 0; i < MAX_THREADS && i < __atomic_load_n(&next_slot, __ATOMIC_RELAXED); i++)
		if (__atomic_load_n(&sampler.threads[i].tid, __ATOMIC_RELAXED) == tid)
			return true;
	return false;
}

} // namespace

void thread_stop(ThreadSlot &slot)
{
	sys::call(__NR_timer_delete, slot.timer);
	release_slot(slot);
	__atomic_fetch_sub(&timers, 1, __ATOMIC_RELAXED);
}

bool threads_init()
{
	rlimit limit;
	void *p = mmap(nullptr, MAX_THREADS * sizeof(ThreadSlot), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return false;
	sampler.threads = static_cast<ThreadSlot *>(p);
	timers_max = MAX_THREADS;
	// A timer occupies a queued signal of the user's. Leave the program its half.
	if (getrlimit(RLIMIT_SIGPENDING, &limit) == 0 && limit.rlim_cur / 2 < timers_max)
		timers_max = limit.rlim_cur / 2;
	return pthread_key_create(&slot_key, on_thread_exit) == 0;
}

// Threads that a library's constructor started before us, and the first one.
void threads_arm_existing()
{
	struct Entry {
		uint64_t ino;
		int64_t off;
		unsigned short reclen;
		unsigned char type;
		char name[];
	};
	alignas(Entry) char buffer[2048];
	const uint32_t self = sys::call(__NR_gettid);

	arm_self();
	const long fd = sys::call(__NR_open, sys::arg("/proc/self/task"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	for (long n; (n = sys::call(__NR_getdents64, fd, sys::arg(buffer), sizeof(buffer))) > 0;)
		for (long at = 0; at < n;) {
			const Entry *entry = reinterpret_cast<const Entry *>(buffer + at);
			const uint32_t tid = static_cast<uint32_t>(strtoul(entry->name, nullptr, 10));
			if (tid && tid != self && !armed(tid))
				arm(tid);
			at += entry->reclen;
		}
	sys::call(__NR_close, fd);
}

// In a forked child that is sampled too: no timer came along, one thread did.
void threads_after_fork()
{
	madvise(sampler.threads, MAX_THREADS * sizeof(ThreadSlot), MADV_DONTNEED);
	timers = 0;
	next_slot = 0;
	arm_self();
}

// ---- new threads --------------------------------------------------------------

namespace {

template <typename Result> struct Start {
	Result (*routine)(void *);
	void *arg;
	bool blocked;	// our signal, in the creating thread's view: masks are inherited
};

// Ends in a tail call, so that the stack shows the program's routine where it
// would be without us.
template <typename Result> Result trampoline(void *p)
{
	auto *const start = static_cast<Start<Result> *>(p);
	Result (*const routine)(void *) = start->routine;
	void *const arg = start->arg;

	signal_set_blocked_by_program(start->blocked);
	free(start);
	if (sampling_here())
		arm_self();
	return routine(arg);
}

template <typename Result> Start<Result> *make_start(Result (*routine)(void *), void *arg)
{
	ensure_started();
	if (!sampling_here())
		return nullptr;
	auto *start = static_cast<Start<Result> *>(malloc(sizeof(Start<Result>)));
	if (start)
		*start = { routine, arg, signal_blocked_by_program() };
	else
		ring_count(&sampler.ring.header->unsampled_threads);
	return start;
}

} // namespace

} // namespace sframe::record

using namespace sframe::record;

SAMPLER_EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
				  void *(*routine)(void *), void *arg)
{
	static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	auto *const start = make_start<void *>(routine, arg);

	if (!next_function(&next, "pthread_create"))
		return EAGAIN;
	if (!start)
		return next(thread, attr, routine, arg);
	const int err = next(thread, attr, trampoline<void *>, start);
	if (err)
		free(start);
	return err;
}

SAMPLER_EXPORT int thrd_create(thrd_t *thread, thrd_start_t routine, void *arg)
{
	static int (*next)(thrd_t *, thrd_start_t, void *);
	auto *const start = make_start<int>(routine, arg);

	if (!next_function(&next, "thrd_create"))
		return thrd_error;
	if (!start)
		return next(thread, routine, arg);
	const int err = next(thread, trampoline<int>, start);
	if (err != thrd_success)
		free(start);
	return err;
}
