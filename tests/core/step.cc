// SPDX-License-Identifier: MIT
//
// From a frame to its caller's, on a stack laid out by hand.
#include "memory.h"
#include "section_builder.h"

#include <gtest/gtest.h>

using namespace core_test;

namespace {

constexpr uint64_t AT = 0x400000, STACK = 0x7ffc0000;

int64_t ctl(unsigned int reg, bool deref, bool reg_p)
{
	return static_cast<int64_t>(SFRAME_FLEX_CTL(reg, deref, reg_p));
}

// The functions that the frames below are in.
std::string section_bytes()
{
	SectionBuilder b;

	// a frame: push %rbp; mov %rsp,%rbp
	b.function(0x1000, 0x20).row(0, SP, { 8 }).row(1, SP, { 16, -16 }).row(4, FP, { 16, -16 });
	b.function(0x1020, 0x20).row(0, SP, { 32 });
	// no caller
	b.function(0x1040, 0x10).row(0, SP, {});
	// __restore_rt as glibc describes it
	b.function(0x10ff, 0x11).signal_frame().flex(
		0, { ctl(7, true, true), 160, ctl(7, true, true), 168, ctl(7, true, true), 120 });
	// CFA in r10, as at a realigned stack's beginning
	b.function(0x1200, 0x10).flex(0, { ctl(10, false, true), 0 });
	// return address popped into rdi, as in vfork
	b.function(0x1300, 0x10).flex(0, { ctl(7, false, true), 0, ctl(5, false, true), 0 });
	// CFA below sp: bytes that no producer writes
	b.function(0x1400, 0x10).row(0, SP, { -8 });
	b.function(0x1410, 0x10).row(0, SP, { 0 });
	return b.bytes();
}

struct Walk {
	Memory memory;
	sframe_section section;
	sframe_frame frame = {};

	explicit Walk(uint64_t pc)
	{
		const std::string bytes = section_bytes();

		memory.add(AT, bytes);
		EXPECT_EQ(sframe_section_parse(&section, AT, bytes.size(), 0, 0, &memory), SFRAME_OK);
		frame.pc = AT + pc;
		frame.sp = STACK;
		frame.fp = STACK + 0x40;
		frame.exact = frame.topmost = 1;
	}
	int step() { return sframe_step(&section, &frame, &memory); }
};

TEST(Step, FromStackPointer)
{
	Walk w(0x1020);

	w.memory.words(STACK, { 1, 2, 3, AT + 0x1010 });
	ASSERT_EQ(w.step(), SFRAME_OK);
	EXPECT_EQ(w.frame.pc, AT + 0x1010);
	EXPECT_EQ(w.frame.sp, STACK + 32);
	EXPECT_EQ(w.frame.fp, STACK + 0x40) << "untouched";
	EXPECT_FALSE(w.frame.exact);
	EXPECT_FALSE(w.frame.topmost);
}

TEST(Step, FromFramePointer)
{
	Walk w(0x1010);

	w.memory.words(STACK + 0x40, { 0x1234, AT + 0x1021 });
	ASSERT_EQ(w.step(), SFRAME_OK);
	EXPECT_EQ(w.frame.pc, AT + 0x1021);
	EXPECT_EQ(w.frame.sp, STACK + 0x50);
	EXPECT_EQ(w.frame.fp, 0x1234u);
}

// A call may be its function's last instruction: the return address is the next one's.
TEST(Step, ReturnAddressIsLookedUpInFrontOfItself)
{
	Walk w(0x1020);

	w.memory.words(STACK, { 1, 2, 3, AT + 0x1020 });
	w.memory.words(STACK + 0x40, { 0x1234, AT + 0x1048 });
	ASSERT_EQ(w.step(), SFRAME_OK);
	ASSERT_EQ(w.step(), SFRAME_OK) << "in the first function, by its last row";
	EXPECT_EQ(w.frame.sp, STACK + 0x50);
	EXPECT_EQ(w.step(), SFRAME_OUTERMOST);
}

TEST(Step, FailureLeavesTheFrame)
{
	Walk w(0x1020);
	const sframe_frame before = w.frame;

	EXPECT_EQ(w.step(), SFRAME_UNREADABLE) << "there is no stack";
	EXPECT_EQ(memcmp(&before, &w.frame, sizeof(before)), 0);
}

TEST(Step, OutermostEndsTheTrace)
{
	Walk w(0x1040);

	EXPECT_EQ(w.step(), SFRAME_OUTERMOST);
}

TEST(Step, NotCovered)
{
	Walk w(0x2000);

	EXPECT_EQ(w.step(), SFRAME_NOT_COVERED);
}

TEST(Step, CallerMustLieAbove)
{
	Walk below(0x1400), equal(0x1410);

	below.memory.words(STACK - 0x20, { 1, 2, 3, 4, 5, 6, 7, 8 });
	EXPECT_EQ(below.step(), SFRAME_NO_PROGRESS);
	equal.memory.words(STACK - 0x20, { 1, 2, 3, 4, 5, 6, 7, 8 });
	equal.frame.exact = 0;
	equal.frame.pc++;
	EXPECT_EQ(equal.step(), SFRAME_NO_PROGRESS);
}

TEST(Step, OtherRegistersHoldInTheTopmostFrameOnly)
{
	Walk w(0x1200);

	w.memory.words(STACK, { 1, 2, 3, 4, 5, 6, 7, AT + 0x1020 });
	EXPECT_EQ(w.step(), SFRAME_UNSUPPORTED_REG) << "not known";
	w.memory.registers[10] = STACK + 64;
	w.frame.topmost = 0;
	EXPECT_EQ(w.step(), SFRAME_UNSUPPORTED_REG) << "of another frame";
	w.frame.topmost = 1;
	ASSERT_EQ(w.step(), SFRAME_OK);
	EXPECT_EQ(w.frame.pc, AT + 0x1020);
	EXPECT_EQ(w.frame.sp, STACK + 64);
}

TEST(Step, ReturnAddressInARegisterKeepsSpOnce)
{
	Walk w(0x1300);

	w.memory.registers[5] = AT + 0x1301;
	ASSERT_EQ(w.step(), SFRAME_OK);
	EXPECT_EQ(w.frame.pc, AT + 0x1301);
	EXPECT_EQ(w.frame.sp, STACK);
	EXPECT_EQ(w.step(), SFRAME_NO_PROGRESS) << "only where execution is";
}

// A signal on an alternate stack below: the handler returns to __restore_rt,
// whose sp is the ucontext's address. All registers are known behind it.
class Signal : public testing::Test {
public:
	static constexpr uint64_t CONTEXT = 0x5000;

	Signal() : w(0x1020)
	{
		std::vector<uint64_t> context(40);

		context[40 / 8 + 2] = STACK + 0x300;	// r10
		context[104 / 8] = 0x3333;		// rdi
		context[120 / 8] = 0x6666;		// rbp
		context[160 / 8] = STACK + 0x200;	// rsp
		context[168 / 8] = AT + 0x1200;		// rip, a first instruction
		w.memory.words(CONTEXT - 32, { 1, 2, 3, AT + 0x1100 });
		w.memory.add(CONTEXT, { reinterpret_cast<char *>(context.data()),
					context.size() * 8 });
		w.memory.words(STACK + 0x2f8, { AT + 0x1048 });
		w.frame.sp = CONTEXT - 32;
	}
	Walk w;
};

TEST_F(Signal, InterruptedFrameIsFoundExactly)
{
	ASSERT_EQ(w.step(), SFRAME_OK);
	EXPECT_EQ(w.frame.pc, AT + 0x1100) << "a return address at a first instruction";
	EXPECT_EQ(w.frame.sp, CONTEXT);
	ASSERT_EQ(w.step(), SFRAME_OK);
	EXPECT_EQ(w.frame.pc, AT + 0x1200);
	EXPECT_EQ(w.frame.sp, STACK + 0x200);
	EXPECT_EQ(w.frame.fp, 0x6666u);
	EXPECT_TRUE(w.frame.exact);
	EXPECT_FALSE(w.frame.topmost);
	EXPECT_EQ(w.frame.sigctx, CONTEXT);
}

TEST_F(Signal, InterruptedFramesRegistersAreKnown)
{
	ASSERT_EQ(w.step(), SFRAME_OK);
	ASSERT_EQ(w.step(), SFRAME_OK);
	ASSERT_EQ(w.step(), SFRAME_OK) << "its CFA counts from r10";
	EXPECT_EQ(w.frame.sp, STACK + 0x300);
	EXPECT_EQ(w.frame.sigctx, 0u) << "they are not those of its caller";
	EXPECT_EQ(w.step(), SFRAME_OUTERMOST);
}

TEST_F(Signal, MayInterruptASignalHandler)
{
	// the interrupted frame is again the restorer, on the first handler's stack
	std::vector<uint64_t> context(40);

	context[160 / 8] = CONTEXT;
	context[168 / 8] = AT + 0x1100;
	w.memory.words(0x4000 - 32, { 1, 2, 3, AT + 0x1100 });
	w.memory.add(0x4000, { reinterpret_cast<char *>(context.data()), context.size() * 8 });
	w.frame.sp = 0x4000 - 32;
	ASSERT_EQ(w.step(), SFRAME_OK);
	ASSERT_EQ(w.step(), SFRAME_OK);
	EXPECT_EQ(w.frame.pc, AT + 0x1100);
	EXPECT_TRUE(w.frame.exact);
	ASSERT_EQ(w.step(), SFRAME_OK);
	EXPECT_EQ(w.frame.pc, AT + 0x1200);
	EXPECT_EQ(w.frame.sp, STACK + 0x200);
}

TEST(Step, SectionsOfOtherMachinesAreNotSteppedHere)
{
	SectionBuilder b;
	Memory memory;
	sframe_section section;
	sframe_frame frame = {};

	b.abi = SFRAME_ABI_AARCH64_ENDIAN_LITTLE;
	b.fixed_ra = 0;
	b.function(0x1000, 0x20).row(0, SP, { 0 });
	const std::string bytes = b.bytes();
	memory.add(AT, bytes);
	ASSERT_EQ(sframe_section_parse(&section, AT, bytes.size(), 0, 0, &memory), SFRAME_OK);
	frame.pc = AT + 0x1000;
	frame.exact = 1;
	EXPECT_EQ(sframe_step(&section, &frame, &memory), SFRAME_UNSUPPORTED_ABI);
}

} // namespace
