// SPDX-License-Identifier: MIT
//
// Sampled at 5 kHz a thread while it loads and unloads libraries, forks,
// throws and starts threads: no hang, no crash, and no wrong frame in any
// sample. SFRAME_STRESS_SECONDS sets how long (default 60).
#include "sanitized.h"
#include "scenes.h"
#include <sframe/register.h>
#include <sframe/unwind.h>

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

extern "C" const char __start_marker_inner[], __stop_marker_inner[], __start_marker_outer[],
	__stop_marker_outer[];

namespace {

constexpr size_t most = 200;

struct Wrong {
	uint64_t pcs[most];
	int count, at;
	const char *why;
};

std::atomic<uint64_t> samples, complete, wrong, marked;
std::atomic<uint64_t> stops[SFRAME_STOP_COUNT], stop_pc[SFRAME_STOP_COUNT];
Wrong first_wrong;
std::atomic<bool> over;
uint64_t start_lo, start_hi, clone_lo, clone_hi;

// Bytes of @pc's call, by a copy that cannot fault.
bool behind_call(uint64_t pc)
{
	uint8_t b[7] = {};
	iovec to = { b, 7 }, from = { (void *)(pc - 7), 7 };

	if (syscall(SYS_process_vm_readv, getpid(), &to, 1, &from, 1, 0) != 7)
		return false;
	if (b[2] == 0xe8)
		return true;
	for (int i = 0; i < 6; i++)
		if (b[i] == 0xff && (b[i + 1] >> 3 & 7) == 2)
			return true;
	return false;
}

void note_wrong(const uint64_t *pcs, int count, int at, const char *why)
{
	if (wrong++ != 0)
		return;
	memcpy(first_wrong.pcs, pcs, size_t(count) * sizeof(*pcs));
	first_wrong.count = count;
	first_wrong.at = at;
	first_wrong.why = why;
}

// Each in a section of its own, so that the linker says where it ends.
__attribute__((noinline, section("marker_inner"))) void marker_inner()
{
	for (int i = 0; i < 20000; i++)
		asm volatile("" : "+r"(i));
}
__attribute__((noinline, section("marker_outer"))) void marker_outer()
{
	marker_inner();
	asm volatile("");
}

void check(const uint64_t *pcs, int count, const sframe_trace &trace)
{
	// With a signal frame inside, the restorer and what it interrupted are no returns.
	if (trace.frames_signal == 0 && trace.frames_fp == 0)
		for (int i = 1; i < count; i++)
			if (!behind_call(pcs[i]))
				note_wrong(pcs, count, i, "behind no call");
	if (pcs[0] >= uint64_t(__start_marker_inner) && pcs[0] < uint64_t(__stop_marker_inner)) {
		marked++;
		if (count < 2 || pcs[1] < uint64_t(__start_marker_outer) ||
		    pcs[1] >= uint64_t(__stop_marker_outer))
			note_wrong(pcs, count, 1, "not the marker's caller");
	}
	if (trace.stop != SFRAME_STOP_OUTERMOST)
		return;
	const uint64_t last = pcs[count - 1];
	if (last - start_lo > start_hi - start_lo && last - clone_lo > clone_hi - clone_lo)
		note_wrong(pcs, count, count - 1, "not an outermost function");
}

void on_sample(int, siginfo_t *, void *context)
{
	const int saved = errno;
	uint64_t pcs[most];
	sframe_trace trace = {};
	sframe_regs regs;

	trace.size = sizeof(trace);
	sframe_regs_from_ucontext(&regs, context);
	const int count = sframe_unwind(&regs, pcs, most, 0, &trace);
	samples++;
	stops[trace.stop]++;
	stop_pc[trace.stop] = trace.stop_pc;
	complete += trace.stop == SFRAME_STOP_OUTERMOST;
	check(pcs, count, trace);
	errno = saved;
}

// 5 kHz of this thread's wall time, from now to the scope's end.
class Sampled {
public:
	Sampled()
	{
		sigevent event = {};
		itimerspec often = { { 0, 200000 }, { 0, 200000 } };

		event.sigev_notify = SIGEV_THREAD_ID;
		event.sigev_signo = SIGPROF;
		event._sigev_un._tid = gettid();
		EXPECT_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer_), 0);
		timer_settime(timer_, 0, &often, nullptr);
	}
	~Sampled() { timer_delete(timer_); }

private:
	timer_t timer_ = {};
};

void load_and_unload()
{
	while (!over) {
		void *library = dlopen(LAZY_SCENES, RTLD_LAZY | RTLD_LOCAL);
		if (!library)
			break;
		link_map *map = nullptr;
		dlinfo(library, RTLD_DI_LINKMAP, &map);
		const Elf64_Ehdr *header = reinterpret_cast<const Elf64_Ehdr *>(map->l_addr);
		sframe_object object = {};
		object.size = sizeof(object);
		object.load_bias = map->l_addr;
		object.phdr = reinterpret_cast<const Elf64_Phdr *>(map->l_addr + header->e_phoff);
		object.phnum = header->e_phnum;
		object.path = map->l_name;
		const bool registered = sframe_register_object(&object, nullptr) > 0;
		for (const char *name : { "scene_calls", "scene_qsort", "scene_throw" })
			reinterpret_cast<void (*)()>(dlsym(library, name))();
		if (registered)
			sframe_unregister_object(&object);
		dlclose(library);
	}
}

void fork_children()
{
	while (!over) {
		const pid_t child = fork();
		if (child == 0) {
			uint64_t pcs[most];
			sframe_trace trace = {};
			trace.size = sizeof(trace);
			sframe_backtrace(pcs, most, &trace);
			_exit(trace.stop == SFRAME_STOP_OUTERMOST ? 0 : 1);
		}
		int status = 0;
		while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
		if (child > 0 && status != 0)
			note_wrong(first_wrong.pcs, 0, 0, "a child's own trace is not complete");
	}
}

__attribute__((noinline)) void thrower(int depth)
{
	if (depth == 0)
		throw std::runtime_error("as expected");
	thrower(depth - 1);
	asm volatile("");
}

void throw_and_catch()
{
	while (!over) {
		try {
			thrower(8);
		} catch (const std::runtime_error &) {
		}
		marker_outer();
	}
}

void start_threads()
{
	while (!over)
		std::thread(marker_outer).join();
}

std::string name_of(uint64_t pc)
{
	Dl_info info = {};
	char text[300];

	dladdr(reinterpret_cast<void *>(pc), &info);
	snprintf(text, sizeof(text), "%s+%#lx %s", info.dli_fname ? info.dli_fname : "?",
		 pc - uint64_t(info.dli_fbase), info.dli_sname ? info.dli_sname : "");
	return text;
}

} // namespace

extern "C" void _start();

TEST(Stress, EveryFrameOfEverySampleIsRight)
{
	const char *seconds = getenv("SFRAME_STRESS_SECONDS");
	struct sigaction action = {};

	ASSERT_GE(sframe_register_loaded(), 0);
	start_lo = uint64_t(&_start);
	start_hi = start_lo + 64;
	// clone3 has no symbol: it is where a thread's own trace ends.
	std::thread([] {
		uint64_t pcs[most];
		sframe_trace trace = {};
		trace.size = sizeof(trace);
		const int count = sframe_backtrace(pcs, most, &trace);
		ASSERT_EQ(trace.stop, unsigned(SFRAME_STOP_OUTERMOST));
		clone_lo = pcs[count - 1] - 64;
		clone_hi = pcs[count - 1] + 64;
	}).join();
	action.sa_sigaction = on_sample;
	action.sa_flags = SA_SIGINFO | SA_RESTART;
	ASSERT_EQ(sigaction(SIGPROF, &action, nullptr), 0);

	std::vector<std::thread> threads;
	for (void (*body)() : { load_and_unload, fork_children, throw_and_catch, start_threads })
		threads.emplace_back([body] {
			const Sampled sampled;
			body();
		});
	const timespec second = { 1, 0 };
	for (int left = seconds ? atoi(seconds) : 60; left > 0; left--)
		nanosleep(&second, nullptr);
	over = true;
	for (auto &thread : threads)
		thread.join();

	printf("%lu samples, %lu complete, %lu in the marker, %lu wrong\n", samples.load(),
	       complete.load(), marked.load(), wrong.load());
	for (int stop = 0; stop < SFRAME_STOP_COUNT; stop++)
		if (stops[stop])
			printf("  %s: %lu, the last at %s\n", sframe_stop_name(stop),
			       stops[stop].load(), name_of(stop_pc[stop]).c_str());
	for (int i = 0; i < first_wrong.count; i++)
		printf("  %s%s\n", i == first_wrong.at ? "> " : "",
		       name_of(first_wrong.pcs[i]).c_str());
	// With registers of another time the chain is no chain: then it is only
	// for crashes, hangs and races.
	if (!signals_deferred) {
		EXPECT_EQ(wrong, 0u) << first_wrong.why;
	}
	EXPECT_GT(samples, 100u);
	EXPECT_GT(marked, 0u);
}
