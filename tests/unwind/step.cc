// SPDX-License-Identifier: MIT
//
// Real code, one instruction at a time: the chain that SFrame gives equals the
// shadow record at every one. "Missing" (the walk says it does not know) is
// allowed where the information cannot be had, and bounded; "wrong" never is.
#include "scenes.h"
#include "stepper.h"
#include <sframe/register.h>

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

class Step : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		scenes = dlopen(SCENES, RTLD_NOW | RTLD_LOCAL);
		ASSERT_NE(scenes, nullptr) << dlerror();
		lazy_scenes = dlopen(LAZY_SCENES, RTLD_LAZY | RTLD_LOCAL);
		ASSERT_NE(lazy_scenes, nullptr) << dlerror();
		ASSERT_GE(sframe_register_loaded(), 0);
	}

	static void (*scene(const char *name, void *library = scenes))()
	{
		void *address = dlsym(library, name);

		EXPECT_NE(address, nullptr) << name;
		return reinterpret_cast<void (*)()>(address);
	}

	// As expect_right(), once everything in between is bound as well (a second
	// thread takes another way than the first: its stack is cached).
	static void expect_right_bound(void (*body)(), double complete_percent)
	{
		body();
		body();
		expect_right(body, complete_percent);
	}

	// At least @complete_percent of the steps reach the outermost frame.
	static void expect_right(void (*body)(), double complete_percent,
				 const shadow::Range *stacks = nullptr, size_t count = 0)
	{
		const StepReport report = step_through(body, stacks, count);

		if (!report.ran)
			GTEST_SKIP() << "ptrace: " << strerror(-report.why_not);
		printf("%s", report.text().c_str());
		EXPECT_FALSE(report.overflowed);
		EXPECT_GT(report.steps, 20u);
		EXPECT_EQ(report.wrong, 0u);
		EXPECT_GE(100.0 * double(report.complete + report.jumping),
			  complete_percent * double(report.steps));
	}

	static inline void *scenes, *lazy_scenes;
};

alignas(64) char alternate_stack[64 << 10];
volatile int signals_seen;

void on_signal(int) { signals_seen = signals_seen + 1; }

void on_signal_raising(int)
{
	signals_seen = signals_seen + 1;
	syscall(SYS_tgkill, getpid(), gettid(), SIGUSR2);
	signals_seen = signals_seen + 1;
}

void handle(int sig, void (*handler)(int), int flags)
{
	struct sigaction action = {};

	action.sa_handler = handler;
	action.sa_flags = flags;
	sigaction(sig, &action, nullptr);
}

void use_alternate_stack()
{
	stack_t stack = {};

	stack.ss_sp = alternate_stack;
	stack.ss_size = sizeof(alternate_stack);
	sigaltstack(&stack, nullptr);
}

const shadow::Range alternate = { uint64_t(alternate_stack),
				  uint64_t(alternate_stack) + sizeof(alternate_stack) };

void raise_usr1() { syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1); }

void *thread_body(void *arg) { return static_cast<char *>(arg) + 1; }

void start_thread()
{
	pthread_t thread;

	if (pthread_create(&thread, nullptr, thread_body, nullptr) == 0)
		pthread_join(thread, nullptr);
}

} // namespace

#define SCENE_TEST(test, name, percent) \
	TEST_F(Step, test) { expect_right_bound(scene(name), percent); }

SCENE_TEST(ProloguesAndEpilogues, "scene_calls", 99.9)
SCENE_TEST(TailCalls, "scene_tail_calls", 99.9)
SCENE_TEST(NoreturnCallAtTheEnd, "scene_noreturn", 90)
SCENE_TEST(Alloca, "scene_alloca", 99)
SCENE_TEST(LongJump, "scene_longjmp", 95)
SCENE_TEST(Throw, "scene_throw", 99)
SCENE_TEST(QsortCallback, "scene_qsort", 99)
SCENE_TEST(Libm, "scene_libm", 99)
SCENE_TEST(MemoryFunctions, "scene_memory", 99)
SCENE_TEST(Printf, "scene_printf", 99)
SCENE_TEST(Vdso, "scene_vdso", 99)
SCENE_TEST(Malloc, "scene_malloc", 99)

TEST_F(Step, RealignedAvxFrames)
{
	if (!reinterpret_cast<int (*)()>(scene("scene_has_avx2"))())
		GTEST_SKIP() << "this processor has no AVX2";
	expect_right_bound(scene("scene_realigned"), 99);
}

// The dynamic linker's trampoline keeps its frame in rbx, which a deeper frame
// may have saved where SFrame does not say: missing, never wrong.
TEST_F(Step, LazyBinding)
{
	expect_right(scene("scene_libm", lazy_scenes), 5);
	expect_right(scene("scene_throw", lazy_scenes), 5);
}

TEST_F(Step, SignalHandler)
{
	handle(SIGUSR1, on_signal, 0);
	expect_right(raise_usr1, 99);
}

TEST_F(Step, SignalHandlerOnAnAlternateStack)
{
	use_alternate_stack();
	handle(SIGUSR1, on_signal, SA_ONSTACK);
	expect_right(raise_usr1, 99, &alternate, 1);
}

TEST_F(Step, HandlerInsideAHandler)
{
	use_alternate_stack();
	handle(SIGUSR1, on_signal_raising, 0);
	handle(SIGUSR2, on_signal, SA_ONSTACK);
	expect_right(raise_usr1, 99, &alternate, 1);
}

TEST_F(Step, HandlerInsideAHandlerOnTheSameStack)
{
	use_alternate_stack();
	handle(SIGUSR1, on_signal_raising, SA_ONSTACK);
	handle(SIGUSR2, on_signal, SA_ONSTACK);
	expect_right(raise_usr1, 99, &alternate, 1);
}

TEST_F(Step, ThreadStart) { expect_right_bound(start_thread, 98); }
