// SPDX-License-Identifier: MIT
//
// Windows of verified memory: what they take for readable is.
#include "memory.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <sys/mman.h>

using namespace sframe;

namespace {

// Four pages of which the third has no access, and nothing around them.
class Hole : public testing::Test {
protected:
	void SetUp() override
	{
		char *room = static_cast<char *>(mmap(nullptr, 6 * page_size, PROT_NONE,
						      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		ASSERT_NE(room, MAP_FAILED);
		room_ = uint64_t(room);
		base = room_ + page_size;
		ASSERT_EQ(mprotect(room + page_size, 4 * page_size, PROT_READ | PROT_WRITE), 0);
		ASSERT_EQ(mprotect(room + 3 * page_size, page_size, PROT_NONE), 0);
	}
	void TearDown() override { munmap(reinterpret_cast<void *>(room_), 6 * page_size); }

	uint64_t base = 0;

private:
	uint64_t room_ = 0;
};

const Window none;

} // namespace

TEST_F(Hole, TheKernelTellsPageByPage)
{
	EXPECT_TRUE(page_readable(base));
	EXPECT_TRUE(page_readable(base + page_size));
	EXPECT_FALSE(page_readable(base + 2 * page_size));
	EXPECT_TRUE(page_readable(base + 3 * page_size));
	EXPECT_FALSE(page_readable(base + 4 * page_size));
	EXPECT_FALSE(page_readable(0));
	EXPECT_FALSE(page_readable(UINT64_C(0x800000000000)));
	EXPECT_FALSE(page_readable(~UINT64_C(0)));
}

TEST_F(Hole, AskingChangesNothing)
{
	sigset_t before, after;

	sigprocmask(SIG_BLOCK, nullptr, &before);
	memset(reinterpret_cast<void *>(base), 0xff, 64);	// a mask that blocks everything
	EXPECT_TRUE(page_readable(base));
	sigprocmask(SIG_BLOCK, nullptr, &after);
	EXPECT_EQ(memcmp(&before, &after, 8), 0);	// what the kernel fills
}

TEST_F(Hole, AWindowStopsAtTheHole)
{
	Window window;

	EXPECT_TRUE(window.reach(base + 8, 8, none));
	EXPECT_TRUE(window.reach(base + 2 * page_size - 8, 8, none));
	EXPECT_TRUE(window.covers(base, 2 * page_size));
	EXPECT_FALSE(window.reach(base + 2 * page_size - 4, 8, none));
	EXPECT_FALSE(window.reach(base + 2 * page_size, 8, none));
	EXPECT_FALSE(window.covers(base + 2 * page_size - 4, 8));
	// Behind the hole it is another run; growing would lead through it.
	EXPECT_FALSE(window.reach(base + 3 * page_size, 8, none));
}

TEST_F(Hole, ReachesDownAsWell)
{
	Window window;

	EXPECT_TRUE(window.reach(base + page_size, 8, none));
	EXPECT_TRUE(window.reach(base, 8, none));
	EXPECT_FALSE(window.reach(base - 8, 8, none));
}

TEST_F(Hole, SurvivesPacking)
{
	Window window;

	ASSERT_TRUE(window.reach(base, page_size, none));
	const Window again = Window::unpack(window.pack());
	EXPECT_EQ(again.lo(), window.lo());
	EXPECT_EQ(again.hi(), window.hi());
	EXPECT_TRUE(Window::unpack(0).empty());
}
