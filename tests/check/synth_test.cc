// SPDX-License-Identifier: MIT
//
// sframectl synth: what it writes, what it keeps, how it goes through trees.
#include <gtest/gtest.h>
#include <filesystem>
#include <sys/stat.h>
#include "sframectl.h"

namespace {

namespace fs = std::filesystem;

const char kFile[] = "/usr/bin/bash";
constexpr int kUsage = 2, kCannot = 3;

class Synth : public testing::Test {
protected:
	TemporaryDirectory tmp;
	const Environment own_cache{ { "XDG_CACHE_HOME", tmp / "cache" } };

	size_t cached_files() const
	{
		std::error_code none;
		size_t n = 0;

		for (const auto &entry : fs::directory_iterator(tmp / "cache/sframe", none))
			n += entry.path().extension() == ".sframe";
		return n;
	}
};

TEST_F(Synth, WritesTheSameBytesEachTime)
{
	ASSERT_TRUE(sframectl({ "synth", "-o", tmp / "a", kFile }).exited(0));
	ASSERT_TRUE(sframectl({ "synth", "-o", tmp / "b", kFile }).exited(0));
	EXPECT_GT(read_whole(tmp / "a").size(), 1000U);
	EXPECT_EQ(read_whole(tmp / "a"), read_whole(tmp / "b"));
}

TEST_F(Synth, WhatIsCachedIsWhatIsWritten)
{
	ASSERT_TRUE(sframectl({ "synth", "-o", tmp / "a", kFile }).exited(0));
	ASSERT_TRUE(sframectl({ "synth", "--cache", "-o", tmp / "b", kFile }, own_cache).exited(0));
	ASSERT_TRUE(sframectl({ "synth", "--cache", "-o", tmp / "c", kFile }, own_cache).exited(0));
	EXPECT_EQ(read_whole(tmp / "a"), read_whole(tmp / "b"));
	EXPECT_EQ(read_whole(tmp / "a"), read_whole(tmp / "c"));
}

TEST_F(Synth, CachesOnce)
{
	const Outcome first = sframectl({ "synth", "--cache", "--json", kFile }, own_cache);
	const Outcome second = sframectl({ "synth", "--cache", "--json", kFile }, own_cache);

	EXPECT_TRUE(first.exited(0)) << first.err;
	EXPECT_EQ(number(first.out, "made"), 1);
	EXPECT_EQ(number(second.out, "made"), 0);
	EXPECT_EQ(number(second.out, "cached"), 1);
	EXPECT_EQ(number(second.out, "functions"), number(first.out, "functions"));
	EXPECT_EQ(cached_files(), 1U);
}

TEST_F(Synth, WithoutCacheOrOutputNothingIsWritten)
{
	const Outcome o = sframectl({ "synth", kFile }, own_cache);

	EXPECT_TRUE(o.exited(0)) << o.err;
	EXPECT_EQ(lines(o.out), 1U) << o.out;
	EXPECT_FALSE(fs::exists(tmp / "cache"));
}

TEST_F(Synth, AnUnusableCacheIsToldOnce)
{
	ASSERT_TRUE(fs::create_directory(tmp / "cache"));
	write_whole(tmp / "cache/sframe", "in the way");
	const Outcome o = sframectl({ "synth", "--cache", kFile, "/usr/bin/env" }, own_cache);

	EXPECT_TRUE(o.exited(kCannot));
	EXPECT_EQ(lines(o.err), 1U) << o.err;
	EXPECT_TRUE(contains(o.err, "2 sections could not be cached")) << o.err;
	EXPECT_TRUE(contains(o.err, tmp / "cache/sframe")) << o.err;
}

TEST_F(Synth, NoHomeForTheCache)
{
	const Outcome o = sframectl({ "synth", "--cache", kFile },
				    { { "XDG_CACHE_HOME", "" }, { "HOME", "" } });

	EXPECT_TRUE(o.exited(kCannot));
	EXPECT_EQ(lines(o.err), 1U) << o.err;
	EXPECT_TRUE(contains(o.err, "XDG_CACHE_HOME")) << o.err;
}

TEST_F(Synth, PlacesThatCannotBeWritten)
{
	for (const std::string &place : { tmp / "none/out", tmp.path(), std::string("/dev/full") }) {
		const Outcome o = sframectl({ "synth", "-o", place, kFile });

		EXPECT_TRUE(o.exited(kCannot)) << place;
		EXPECT_EQ(lines(o.err), 1U) << o.err;
		EXPECT_TRUE(contains(o.err, place + ": cannot be written")) << o.err;
	}
}

TEST_F(Synth, OneOutputIsForOneFile)
{
	EXPECT_TRUE(sframectl({ "synth", "-o", tmp / "a", kFile, "/usr/bin/env" }).exited(kUsage));
	EXPECT_TRUE(sframectl({ "synth", "-o", tmp / "a", tmp.path() }).exited(kUsage));
	EXPECT_FALSE(fs::exists(tmp / "a"));
}

TEST_F(Synth, StatsNameEveryCount)
{
	const Outcome o = sframectl({ "synth", "--stats", kFile });

	for (const char *name : { "section_size", "functions", "empty_fdes", "entries", "rows",
				  "flex_entries", "mask_entries", "cfi_bytes", "covered_bytes",
				  "padding_bytes", "eh_frame_size", "peak_memory", "ratio",
				  "covered_percent" })
		EXPECT_TRUE(contains(o.out, name)) << name;
}

TEST_F(Synth, StatsNameWhatIsUncovered)
{
	const char *file = "/usr/lib/x86_64-linux-gnu/libcrypto.so.3";

	if (access(file, R_OK))
		GTEST_SKIP() << "libcrypto is not installed";
	const Outcome o = sframectl({ "synth", "--stats", file });
	EXPECT_TRUE(contains(o.out, "uncovered: CFA by an unknown expression: ")) << o.out;
}

TEST_F(Synth, JsonIsJson)
{
	write_whole(tmp / "quote\" \\ \n.txt", "text");
	const Outcome o = sframectl({ "synth", "--json", kFile, tmp / "quote\" \\ \n.txt" });

	write_whole(tmp / "json", o.out);
	const Outcome parsed = run({ "python3", "-c",
				     "import json, sys; d = json.load(open(sys.argv[1]));"
				     "assert len(d['files']) == 2 and d['total']['failed'] == 1,d;"
				     "assert d['files'][1]['file'].endswith('quote\" \\\\ \\n.txt')",
				     tmp / "json" });
	if (parsed.exited(127))
		GTEST_SKIP() << "python3 is not installed";
	EXPECT_TRUE(parsed.exited(0)) << o.out << parsed.err;
}

class Tree : public Synth {
protected:
	void SetUp() override
	{
		fs::create_directories(tmp / "tree/a/b");
		fs::copy("/usr/bin/env", tmp / "tree/a/one");
		fs::copy("/usr/bin/id", tmp / "tree/a/b/two");
		fs::create_hard_link(tmp / "tree/a/one", tmp / "tree/a/again");
		fs::create_symlink("one", tmp / "tree/a/link");
		fs::create_symlink("../..", tmp / "tree/a/b/loop");
		fs::create_symlink("nowhere", tmp / "tree/dangling");
		write_whole(tmp / "tree/text", "no ELF");
		write_whole(tmp / "tree/short", "\177ELF");
		std::string object = read_whole("/usr/bin/env");
		object[16] = 1;	// ET_REL
		write_whole(tmp / "tree/object.o", object);
	}
};

TEST_F(Tree, EachObjectOnce)
{
	const Outcome o = sframectl({ "synth", "--json", tmp / "tree", tmp / "tree/a" });

	EXPECT_TRUE(o.exited(0)) << o.err;
	EXPECT_EQ(o.err, "");
	EXPECT_EQ(number(o.out, "files"), 2) << o.out;
	EXPECT_EQ(number(o.out, "made"), 2);
	EXPECT_EQ(number(o.out, "other_elf"), 1);
	EXPECT_EQ(number(o.out, "failed"), 0);
}

TEST_F(Tree, ALinkToATreeIsWalkedIfNamed)
{
	fs::create_directory_symlink("tree", tmp / "named");
	const Outcome o = sframectl({ "synth", "--json", tmp / "named" });

	EXPECT_TRUE(o.exited(0)) << o.err;
	EXPECT_EQ(number(o.out, "made"), 2);
}

TEST_F(Tree, DamagedOnesAreNamedAndTheOthersDone)
{
	const std::string bytes = read_whole("/usr/bin/id");

	write_whole(tmp / "tree/half", bytes.substr(0, bytes.size() / 2));
	const Outcome o = sframectl({ "synth", "--json", tmp / "tree" });
	EXPECT_TRUE(o.exited(kCannot));
	EXPECT_EQ(lines(o.err), 1U) << o.err;
	EXPECT_TRUE(contains(o.err, "tree/half: is truncated")) << o.err;
	EXPECT_EQ(number(o.out, "made"), 2);
	EXPECT_EQ(number(o.out, "failed"), 1);
}

void become_nobody()
{
	if (geteuid() == 0 && (setgid(65534) || setuid(65534)))
		_exit(126);
}

TEST_F(Tree, UnreadableOnesAreNamedAndCounted)
{
	ASSERT_EQ(chmod(tmp.path().c_str(), 0755), 0);
	ASSERT_EQ(chmod((tmp / "tree/a/b/two").c_str(), 0), 0);
	fs::create_directory(tmp / "tree/locked");
	ASSERT_EQ(chmod((tmp / "tree/locked").c_str(), 0), 0);
	if (!sframectl({ "--version" }, {}, become_nobody).exited(0))
		GTEST_SKIP() << "another user may not run the sframectl of this build tree";
	const Outcome o = sframectl({ "synth", "--json", tmp / "tree" }, {}, become_nobody);

	EXPECT_TRUE(o.exited(kCannot));
	EXPECT_EQ(lines(o.err), 2U) << o.err;
	EXPECT_EQ(number(o.out, "unreadable"), 2);
	EXPECT_EQ(number(o.out, "made"), 1);
	chmod((tmp / "tree/locked").c_str(), 0700);
}

TEST_F(Tree, TheTextEndsWithTotals)
{
	const Outcome o = sframectl({ "synth", "--cache", tmp / "tree" }, own_cache);

	EXPECT_TRUE(o.exited(0)) << o.err;
	EXPECT_TRUE(contains(o.out, "2 files: 2 sections made, 0 were cached")) << o.out;
	EXPECT_TRUE(contains(o.out, "\ntotal: ")) << o.out;
	EXPECT_EQ(cached_files(), 2U);
}

} // namespace
