// SPDX-License-Identifier: MIT
//
// The C++ layer, over the shared library as a program uses it.
#include <gtest/gtest.h>

#include <sframe/sframe.hpp>
#include <sys/mman.h>
#include <unistd.h>

#include "section_bytes.h"

namespace {

struct CxxTest : testing::Test {
	std::byte *code = static_cast<std::byte *>(mmap(nullptr, 8192, PROT_READ | PROT_EXEC,
							MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	std::vector<uint8_t> bytes = make_section(1), better = make_section(2);

	std::span<std::byte> text() const { return { code, 4096 }; }
	static std::span<const std::byte> section(const std::vector<uint8_t> &b)
	{
		return std::as_bytes(std::span(b));
	}
	static bool covered(const void *at) { return !!sframe::find((uintptr_t)at); }
	~CxxTest() override { munmap(code, 8192); }
};

TEST_F(CxxTest, AHandleOwnsItsRegistration)
{
	{
		auto registration = sframe::register_section(section(bytes), text());
		ASSERT_TRUE(registration) << registration.message();
		EXPECT_TRUE(covered(code));
		EXPECT_FALSE(covered(code + 4096));
	}
	EXPECT_FALSE(covered(code));
}

TEST_F(CxxTest, AnErrorSaysWhich)
{
	auto first = sframe::register_section(section(bytes), text());
	auto second = sframe::register_section(section(better), text());
	EXPECT_FALSE(second);
	EXPECT_EQ(second.error().number, EEXIST);
	EXPECT_EQ(second.message(), strerror(EEXIST));
	EXPECT_EQ(sframe::register_section(section(bytes), text().first(0)).error().number, EINVAL);
	EXPECT_TRUE(covered(code)) << "the failed one took nothing with it";
}

TEST_F(CxxTest, MovingMovesTheOwnership)
{
	sframe::Registration kept;
	{
		auto registration = sframe::register_section(section(bytes), text());
		ASSERT_TRUE(registration);
		kept = std::move(*registration);
		EXPECT_FALSE(*registration);
	}
	EXPECT_TRUE(covered(code));
	EXPECT_TRUE(kept.reset());
	EXPECT_FALSE(covered(code));
	EXPECT_TRUE(kept.reset()) << "nothing to do any more";
}

TEST_F(CxxTest, ReplaceGivesAnotherSection)
{
	auto registration = sframe::register_section(section(bytes), text());
	ASSERT_TRUE(registration);
	ASSERT_TRUE(registration->replace(section(better)));
	EXPECT_EQ(sframe::find((uintptr_t)code)->sframe_start, (uintptr_t)better.data());
	std::vector<uint8_t> broken = make_section(1);
	broken[2] = 1;
	EXPECT_EQ(registration->replace(section(broken)).error().number, EINVAL);
	EXPECT_TRUE(covered(code));
}

TEST_F(CxxTest, AReleasedRangeStays)
{
	auto registration = sframe::register_section(section(bytes), text());
	ASSERT_TRUE(registration);
	const sframe_setup setup = registration->release();
	registration->reset();
	EXPECT_TRUE(covered(code));
	EXPECT_EQ(sframe_unregister(&setup, sizeof(setup)), 0);
}

TEST_F(CxxTest, StatsAndPeerAgree)
{
	auto registration = sframe::register_section(section(bytes), text());
	ASSERT_TRUE(registration);
	auto peer = sframe::Peer::open(getpid());
	ASSERT_TRUE(peer) << peer.message();
	auto ranges = peer->ranges();
	ASSERT_TRUE(ranges);
	EXPECT_EQ(ranges->size(), sframe::stats().live);
	EXPECT_EQ((*ranges)[0].range.text_start, (uintptr_t)code);
	EXPECT_EQ(peer->info()->stats.registered, sframe::stats().registered);
	EXPECT_EQ(peer->origin(), getpid());
	EXPECT_EQ(sframe::Peer::open(-1).error().number, ESRCH);
}

} // namespace
