// SPDX-License-Identifier: MIT
//
// Code that no section covers: made at run time, as a JIT would, with frame
// pointers and without.
#include <sframe/register.h>
#include <sframe/unwind.h>

#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <sys/mman.h>
#include <ucontext.h>
#include "sanitized.h"

namespace {

// void code(void (*callee)(void)): push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret
const uint8_t with_frame[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
// sub $8,%rsp; call *%rdi; add $8,%rsp; ret
const uint8_t without_frame[] = { 0x48, 0x83, 0xec, 0x08, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x08, 0xc3 };
// push %rbp; mov $5,%ebp; push; call *%rdi; pop; pop %rbp; ret: rbp is any register
const uint8_t with_garbage[] = { 0x55, 0xbd, 5, 0, 0, 0, 0x50, 0x50, 0xff, 0xd7, 0x58, 0x58, 0x5d, 0xc3 };
// push %rbp; lea -32(%rsp),%rbp; sub $64,%rsp; call *%rdi; ...: rbp points to locals
const uint8_t with_pointer[] = { 0x55, 0x48, 0x8d, 0x6c, 0x24, 0xe0, 0x48, 0x83, 0xec, 0x40,
				 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x40, 0x5d, 0xc3 };

constexpr size_t most = 64;
uint64_t pcs[most];
int count;
sframe_trace trace;
unsigned unwind_flags;

__attribute__((noinline)) void take_trace()
{
	trace.size = sizeof(trace);
	count = sframe_backtrace(pcs, most, &trace);
	asm volatile("");
}

void on_trap(int, siginfo_t *, void *context)
{
	sframe_regs regs;

	sframe_regs_from_ucontext(&regs, context);
	trace.size = sizeof(trace);
	count = sframe_unwind(&regs, pcs, most, unwind_flags, &trace);
}

class FramePointer : public testing::Test {
protected:
	static void SetUpTestSuite() { ASSERT_GE(sframe_register_loaded(), 0); }
	void SetUp() override
	{
		code = static_cast<uint8_t *>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
						   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		if (code == MAP_FAILED)
			GTEST_SKIP() << "no writable and executable memory here";
	}
	void TearDown() override { munmap(code, 4096); }

	template <size_t N> void call(const uint8_t (&bytes)[N], void (*callee)() = take_trace)
	{
		memcpy(code, bytes, N);
		reinterpret_cast<void (*)(void (*)())>(code)(callee);
		asm volatile("");
	}

	bool in_code(uint64_t pc) const { return pc - uint64_t(code) <= 4096; }

	uint8_t *code = nullptr;
};

} // namespace

TEST_F(FramePointer, LeadsThroughUncoveredCode)
{
	call(with_frame);
	EXPECT_EQ(trace.stop, unsigned(SFRAME_STOP_OUTERMOST));
	EXPECT_EQ(trace.frames_fp, 1u);
	EXPECT_EQ(trace.frames_sframe + trace.frames_fp + 1, unsigned(count));
	EXPECT_TRUE(in_code(pcs[1]));
	EXPECT_FALSE(in_code(pcs[2]));
}

// What is found behind code without a frame must not be taken for its caller:
// the frame pointer there is the caller's, or none at all.
TEST_F(FramePointer, IsNotBelievedWhereItIsNone)
{
	call(with_garbage);
	EXPECT_EQ(trace.stop, unsigned(SFRAME_STOP_NOT_COVERED));
	EXPECT_TRUE(in_code(trace.stop_pc));
	EXPECT_EQ(trace.frames_fp, 0u);
	call(with_pointer);
	EXPECT_EQ(trace.stop, unsigned(SFRAME_STOP_NOT_COVERED));
	EXPECT_EQ(trace.frames_fp, 0u);
}

TEST_F(FramePointer, OfTheCallerIsNotBelievedEither)
{
	asm volatile("" ::: "memory");
	call(without_frame);
	if (trace.stop == SFRAME_STOP_OUTERMOST) {
		// rbp may hold: then it has to be a frame of this very chain.
		EXPECT_EQ(trace.frames_fp, 1u);
	} else {
		EXPECT_EQ(trace.stop, unsigned(SFRAME_STOP_NOT_COVERED));
	}
}

TEST_F(FramePointer, IsLeftAloneOnRequest)
{
	struct sigaction action = {}, old;

	action.sa_sigaction = on_trap;
	action.sa_flags = SA_SIGINFO;
	ASSERT_EQ(sigaction(SIGUSR1, &action, &old), 0);
	unwind_flags = SFRAME_UNWIND_NO_FP;
	call(with_frame, [] { raise(SIGUSR1); });
	EXPECT_EQ(trace.stop, unsigned(SFRAME_STOP_NOT_COVERED));
	unwind_flags = 0;
	call(with_frame, [] { raise(SIGUSR1); });
	EXPECT_EQ(trace.stop, unsigned(SFRAME_STOP_OUTERMOST));
	EXPECT_EQ(trace.frames_fp, 1u);
	sigaction(SIGUSR1, &old, nullptr);
}

// Interrupted at each instruction of a frame: before push, behind it, inside,
// and at the return. int3 stops there; the byte it replaces is put back.
TEST_F(FramePointer, AtEveryInstruction)
{
	static uint8_t *trap_at;
	static uint8_t original;
	const size_t starts[] = { 0, 1, 4, 6, 7 };
	struct sigaction action = {}, old;

	action.sa_flags = SA_SIGINFO;
	action.sa_sigaction = [](int, siginfo_t *, void *context) {
		*trap_at = original;
		static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_RIP]--;
		on_trap(0, nullptr, context);
	};
	ASSERT_EQ(sigaction(SIGTRAP, &action, &old), 0);
	for (size_t start : starts) {
		memcpy(code, with_frame, sizeof(with_frame));
		trap_at = code + start;
		original = *trap_at;
		*trap_at = 0xcc;
		reinterpret_cast<void (*)(void (*)())>(code)([] {});
		EXPECT_EQ(pcs[0], uint64_t(trap_at));
		EXPECT_EQ(trace.stop, unsigned(SFRAME_STOP_OUTERMOST)) << start;
		EXPECT_FALSE(in_code(pcs[1])) << start;
		EXPECT_EQ(trace.frames_fp, 1u) << start;
	}
	sigaction(SIGTRAP, &old, nullptr);
}

// A call through a null pointer: the caller is on top of the stack.
TEST_F(FramePointer, JumpToNowhere)
{
	if (signals_deferred)
		GTEST_SKIP() << "TSan takes what follows a jump out of a handler for the handler";
	static ucontext_t resume;
	static volatile bool seen;
	struct sigaction action = {}, old;

	action.sa_flags = SA_SIGINFO;
	action.sa_sigaction = [](int, siginfo_t *, void *context) {
		on_trap(0, nullptr, context);
		seen = true;
		setcontext(&resume);
	};
	ASSERT_EQ(sigaction(SIGSEGV, &action, &old), 0);
	seen = false;
	getcontext(&resume);
	if (!seen) {
		void (*volatile nowhere)() = nullptr;
		nowhere();
	}
	sigaction(SIGSEGV, &old, nullptr);
	EXPECT_EQ(pcs[0], 0u);
	EXPECT_EQ(trace.stop, unsigned(SFRAME_STOP_OUTERMOST));
	EXPECT_EQ(trace.frames_fp, 1u);
}
