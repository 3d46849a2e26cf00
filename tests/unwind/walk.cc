// SPDX-License-Identifier: MIT
//
// Whole stacks of this program: complete, counted, the same as glibc says, and
// never by rules of what is gone.
#include "sanitized.h"
#include <sframe/register.h>
#include <sframe/registry.h>
#include <sframe/unwind.h>

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <dlfcn.h>
#include <execinfo.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

constexpr size_t most = 300;

struct Trace {
	uint64_t pcs[most];
	int count = 0;
	sframe_trace info = {};
};

__attribute__((noinline)) void take(Trace *trace)
{
	trace->info.size = sizeof(trace->info);
	trace->count = sframe_backtrace(trace->pcs, most, &trace->info);
	asm volatile("");
}

__attribute__((noinline)) void take_at(Trace *trace, int depth)
{
	if (depth == 0)
		take(trace);
	else
		take_at(trace, depth - 1);
	asm volatile("");
}

class Walk : public testing::Test {
protected:
	static void SetUpTestSuite() { ASSERT_GE(sframe_register_loaded(), 0); }
};

} // namespace

TEST_F(Walk, IsCompleteToStart)
{
	Trace trace;

	take(&trace);
	EXPECT_EQ(trace.info.stop, unsigned(SFRAME_STOP_OUTERMOST));
	EXPECT_EQ(trace.info.frames_sframe, unsigned(trace.count - 1));
	EXPECT_EQ(trace.info.frames_fp, 0u);
	EXPECT_EQ(trace.info.stop_pc, trace.pcs[trace.count - 1]);
}

__attribute__((noinline)) static void take_both(Trace *trace, void **theirs, int *their_count)
{
	*their_count = backtrace(theirs, most);
	take(trace);
	asm volatile("");
}

TEST_F(Walk, AgreesWithGlibc)
{
	if (backtrace_intercepted)
		GTEST_SKIP() << "backtrace() is the sanitizer's";
	void *theirs[most];
	int their_count;
	Trace trace;

	take_both(&trace, theirs, &their_count);
	// Both begin in take_both(), ours one frame deeper; the two calls differ.
	ASSERT_EQ(trace.count, their_count + 1);
	for (int i = 1; i < their_count; i++)
		EXPECT_EQ(trace.pcs[i + 1], uint64_t(theirs[i])) << i;
}

TEST_F(Walk, StopsWhereTheArrayIsFull)
{
	Trace whole, part;

	take_at(&whole, 10);
	part.info.size = sizeof(part.info);
	for (size_t max = 1; max < 8; max++) {
		EXPECT_EQ(sframe_backtrace(part.pcs, max, &part.info), int(max));
		EXPECT_EQ(part.info.stop, unsigned(SFRAME_STOP_DEPTH));
		EXPECT_EQ(part.info.frames_sframe, max - 1);
	}
}

// Trails of earlier walks, the window, the cache: deeper, shallower, deeper.
TEST_F(Walk, IsTheSameWhateverWasWalkedBefore)
{
	if (backtrace_intercepted)
		GTEST_SKIP() << "backtrace() is the sanitizer's";
	for (int round = 0; round < 50; round++) {
		const int depth = round * 7 % 40;
		Trace trace;

		take_at(&trace, depth);
		ASSERT_EQ(trace.info.stop, unsigned(SFRAME_STOP_OUTERMOST));
		ASSERT_EQ(trace.info.frames_sframe, unsigned(trace.count - 1));
		void *theirs[most];
		// This function's frame and those below are the same in both.
		const int their_count = backtrace(theirs, most);
		for (int i = 1; i < their_count; i++)
			ASSERT_EQ(trace.pcs[trace.count - i], uint64_t(theirs[their_count - i]));
		ASSERT_EQ(trace.count, their_count + depth + 2);
	}
}

TEST_F(Walk, ThreadsEndWhereTheyStart)
{
	std::vector<std::thread> threads;
	std::atomic<int> complete{0};

	for (int i = 0; i < 8; i++)
		threads.emplace_back([&] {
			for (int j = 0; j < 200; j++) {
				Trace trace;
				take_at(&trace, j % 20);
				complete += trace.info.stop == SFRAME_STOP_OUTERMOST;
			}
		});
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(complete, 1600);
}

TEST_F(Walk, ChildrenAreComplete)
{
	const pid_t child = fork();

	if (child == 0) {
		Trace trace;
		take_at(&trace, 5);
		_exit(trace.info.stop == SFRAME_STOP_OUTERMOST ? 0 : 1);
	}
	int status;
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
}

static Trace from_handler;

TEST_F(Walk, CountsSignalFrames)
{
	struct sigaction action = {}, old;

	action.sa_handler = [](int) { take(&from_handler); };
	ASSERT_EQ(sigaction(SIGUSR1, &action, &old), 0);
	raise(SIGUSR1);
	sigaction(SIGUSR1, &old, nullptr);
	EXPECT_EQ(from_handler.info.stop, unsigned(SFRAME_STOP_OUTERMOST));
	EXPECT_EQ(from_handler.info.frames_signal, 1u);
	EXPECT_EQ(from_handler.info.frames_sframe, unsigned(from_handler.count - 1));
}

// What was learned of a range is not used once it is unregistered.
TEST_F(Walk, ForgetsWhatIsUnregistered)
{
	sframe_range range = {};
	Trace before, after, again;

	take(&before);
	range.size = sizeof(range);
	ASSERT_EQ(sframe_find(uint64_t(&take), &range), 0);
	sframe_setup setup = {};
	setup.sframe_start = range.sframe_start;
	setup.sframe_size = range.sframe_size;
	setup.text_start = range.text_start;
	setup.text_size = range.text_end - range.text_start;
	setup.flags = range.flags;
	setup.func_base = range.func_base;
	ASSERT_EQ(sframe_unregister(&setup, sizeof(setup)), 0);
	take(&after);
	ASSERT_EQ(sframe_register(&setup, sizeof(setup)), 0);
	take(&again);
	EXPECT_EQ(before.info.stop, unsigned(SFRAME_STOP_OUTERMOST));
	EXPECT_NE(after.info.frames_sframe, before.info.frames_sframe);
	EXPECT_EQ(again.info.stop, unsigned(SFRAME_STOP_OUTERMOST));
}

TEST_F(Walk, NamesEachStop)
{
	for (int stop = 0; stop < SFRAME_STOP_COUNT; stop++)
		EXPECT_STRNE(sframe_stop_name(stop), "unknown") << stop;
	EXPECT_STREQ(sframe_stop_name(SFRAME_STOP_COUNT), "unknown");
}
