// SPDX-License-Identifier: MIT
//
// libsframe-sampler.so from inside: what its parts share. It is preloaded into
// the program that `sframectl record` runs, has no C++ runtime, and prints
// nothing.
//
//	sampler.cc	start, the signal handler, what goes into the ring
//	threads.cc	a timer for each thread; pthread_create and thrd_create
//	signals.cc	the program's view of our signal
//	restart.cc	system calls that our signal interrupted
//	image.cc	environment, exec, fork
#pragma once

#include <csignal>
#include <cstdint>
#include <ctime>
#include <sys/types.h>
#include <sys/ucontext.h>
#include "ring_writer.h"

#define SAMPLER_EXPORT extern "C" __attribute__((visibility("default")))

namespace sframe::record {

// A thread that has a timer. Its address is what the timer's signal carries.
struct ThreadSlot {
	uint32_t tid;		// 0: free
	int32_t timer;
	// A system call that was made to go on after a sample (restart.cc).
	uint64_t restart_pc, restart_sp;
	uint64_t restart_deadline;
	struct timespec restart_timeout;
};

constexpr uint32_t MAX_THREADS = 1u << 16;

struct Sampler {
	bool active;		// set once, when everything below is
	bool wall;
	bool follow;
	int signo;
	uint32_t owner;		// the recorded process; others are sampled only with follow
	uint32_t pid;		// the process that has the timers
	uint32_t image;
	uint64_t period_ns;
	RingWriter ring;
	ThreadSlot *threads;	// MAX_THREADS
	uint64_t last_stats_ns;
};

extern Sampler sampler;

// Begins once: from the constructor, or from a thread created before it.
void ensure_started();

// Is the calling process (not a forked copy that shares our memory) sampled?
bool sampling_here();

uint64_t now_ns(clockid_t clock);

// threads.cc
bool threads_init();
void threads_arm_existing();
void threads_after_fork();
void thread_stop(ThreadSlot &slot);

// signals.cc
bool signals_init();
void signal_unblock();
void signal_forward(int sig, siginfo_t *info, void *context);
bool signal_blocked_by_program();
void signal_set_blocked_by_program(bool blocked);

// restart.cc: called at the end of the handler
void restart_interrupted(ThreadSlot &slot, ucontext_t *context);

// image.cc
void image_init();	// reads our variables
const char *image_ring_path();
void image_hide();	// takes our variables out of the environment

// sampler.cc
void on_signal(int sig, siginfo_t *info, void *context);
void sampler_new_image(uint32_t parent);

// The next definition of a function that we wrap.
void *next_symbol(const char *name);
template <typename F> F *next_function(F **cache, const char *name)
{
	F *f = __atomic_load_n(cache, __ATOMIC_RELAXED);
	if (!f) {
		f = reinterpret_cast<F *>(next_symbol(name));
		__atomic_store_n(cache, f, __ATOMIC_RELAXED);
	}
	return f;
}

} // namespace sframe::record
