// SPDX-License-Identifier: MIT
//
// Stacks that no program makes. Whatever the registers and the words on the
// stack are, a walk ends, without a fault, and each PC it gives behind the
// first was either interrupted there or is behind a call.
#include "unwind_walk.h"
#include <sframe/register.h>

#include <gtest/gtest.h>

#include <cstring>
#include <dlfcn.h>
#include <random>
#include <sys/mman.h>

using namespace sframe;

namespace {

constexpr size_t most = 200;

class Corrupt : public testing::Test {
protected:
	static void SetUpTestSuite() { ASSERT_GE(sframe_register_loaded(), 0); }

	// A stack of @size bytes that ends where a mapping ends.
	void SetUp() override
	{
		void *room = mmap(nullptr, size + 2 * page_size, PROT_NONE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		ASSERT_NE(room, MAP_FAILED);
		room_ = room;
		stack = uint64_t(room) + page_size;
		ASSERT_EQ(mprotect((void *)stack, size, PROT_READ | PROT_WRITE), 0);
	}
	void TearDown() override { munmap(room_, size + 2 * page_size); }

	static sframe_regs registers(uint64_t pc, uint64_t sp, uint64_t fp)
	{
		sframe_regs regs = {};

		regs.reg[16] = pc;
		regs.reg[7] = sp;
		regs.reg[6] = fp;
		regs.valid = 1 << 16 | 1 << 7 | 1 << 6;
		regs.exact = 1;
		return regs;
	}

	int walk(const sframe_regs &regs, unsigned flags = 0)
	{
		trace.size = sizeof(trace);
		return sframe_unwind(&regs, pcs, most, flags, &trace);
	}

	static constexpr size_t size = 8 * page_size;
	uint64_t stack = 0, pcs[most] = {};
	sframe_trace trace = {};

private:
	void *room_ = nullptr;
};

uint64_t address_of(const char *name) { return uint64_t(dlsym(RTLD_DEFAULT, name)); }

} // namespace

TEST_F(Corrupt, RegistersThatPointNowhere)
{
	const uint64_t code = address_of("qsort") + 40;
	const uint64_t odd[] = { 0, 1, 8, 4095, stack - 8, stack - 1, stack + size - 8,
				 stack + size - 1, stack + size, UINT64_C(0x7fffffffffff),
				 UINT64_C(0x800000000000), UINT64_C(0xffff800000000000),
				 ~UINT64_C(0), ~UINT64_C(0) - 15, code };

	for (uint64_t pc : odd)
		for (uint64_t sp : odd)
			for (uint64_t fp : odd) {
				const int n = walk(registers(pc, sp, fp));
				ASSERT_GE(n, 1);
				ASSERT_LT(trace.stop, unsigned(SFRAME_STOP_COUNT));
			}
}

TEST_F(Corrupt, RandomStacksOfRealCode)
{
	std::mt19937_64 random(3);
	const uint64_t libc = address_of("qsort");
	Stack reader(registers(0, 0, 0), 0);

	for (int round = 0; round < 3000; round++) {
		// Words that look like code, like the stack, like nothing.
		for (size_t i = 0; i < size; i += 8) {
			uint64_t word = random();
			switch (random() % 4) {
			case 0:
				word = libc - 0x40000 + word % 0x100000;
				break;
			case 1:
				word = stack + word % (size + 64);
				break;
			case 2:
				word %= 256;
			}
			memcpy((void *)(stack + i), &word, 8);
		}
		const uint64_t sp = stack + random() % size / 8 * 8;
		const int n = walk(registers(libc - 0x40000 + random() % 0x100000, sp,
					     stack + random() % size),
				   round % 2 ? SFRAME_UNWIND_CHECKED : 0);
		ASSERT_GE(n, 1);
		for (int i = 1; i < n; i++) {
			sframe_row row;
			// A restorer, or what a signal frame interrupted, is behind no call.
			if (trace.frames_signal || (unwind_find_row(pcs[i] - 1, &row) == 0 &&
						    row.signal))
				continue;
			ASSERT_TRUE(unwind_behind_call(pcs[i], reader)) << round << " " << i;
		}
	}
}

TEST_F(Corrupt, FramePointersInACircle)
{
	// fp -> fp, with a return address that is one.
	uint64_t words[2] = { stack + 64, address_of("qsort") };

	memcpy((void *)(stack + 64), words, sizeof(words));
	walk(registers(stack, stack, stack + 64));
	EXPECT_NE(trace.stop, unsigned(SFRAME_STOP_OUTERMOST));
	EXPECT_LT(trace.frames_fp, 3u);
}

TEST_F(Corrupt, BadArguments)
{
	sframe_regs regs = registers(stack, stack, stack);

	EXPECT_EQ(walk(regs, 0x80), -EINVAL);
	regs.valid = 1 << 16;
	EXPECT_EQ(walk(regs), -EINVAL);
}

TEST_F(Corrupt, NoRoomForPcs)
{
	const sframe_regs regs = registers(stack, stack, stack);

	trace.size = sizeof(trace);
	EXPECT_EQ(sframe_unwind(&regs, pcs, 0, 0, &trace), 0);
	EXPECT_EQ(trace.stop, unsigned(SFRAME_STOP_DEPTH));
}

TEST_F(Corrupt, AShorterTraceIsFilledAsFar)
{
	const sframe_regs regs = registers(stack, stack, stack);

	trace = {};
	trace.size = offsetof(sframe_trace, frames_fp);
	trace.stop_pc = 7;
	sframe_unwind(&regs, pcs, most, 0, &trace);
	EXPECT_EQ(trace.stop_pc, 7u);
	EXPECT_EQ(trace.size, offsetof(sframe_trace, frames_fp));
}
