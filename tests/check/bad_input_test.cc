// SPDX-License-Identifier: MIT
//
// Files that are no good: one line each, which says what, where and what to do,
// and the right exit status, from both commands.
#include <gtest/gtest.h>
#include <csignal>
#include <sys/stat.h>
#include <elf.h>
#include "sframectl.h"

namespace {

const char kGood[] = "/usr/bin/bash";
constexpr int kUsage = 2, kCannot = 3;

class BadInput : public testing::TestWithParam<const char *> {
protected:
	// One sentence on stderr, nothing else.
	void expect_refused(const std::string &path, const std::string &what,
			    void (*prepare)() = nullptr)
	{
		const Outcome o = sframectl({ GetParam(), path }, {}, prepare);

		EXPECT_TRUE(o.exited(kCannot)) << o.status << o.err;
		EXPECT_EQ(lines(o.err), 1U) << o.err;
		EXPECT_EQ(o.err.rfind("sframectl: " + path + ": ", 0), 0U) << o.err;
		EXPECT_TRUE(contains(o.err, what)) << o.err;
		EXPECT_TRUE(contains(o.err, "; ")) << "no advice: " << o.err;
		EXPECT_EQ(o.out, "");
	}

	std::string file(const std::string &bytes)
	{
		write_whole(tmp / "file", bytes);
		return tmp / "file";
	}

	TemporaryDirectory tmp;
	const std::string good = read_whole(kGood);
};

TEST_P(BadInput, Missing) { expect_refused(tmp / "none", "No such file"); }
TEST_P(BadInput, Empty) { expect_refused(file(""), "is empty"); }
TEST_P(BadInput, NotElf) { expect_refused(file("#!/bin/sh\n"), "is not an ELF file"); }
TEST_P(BadInput, MagicAlone) { expect_refused(file("\177ELF"), "truncated"); }
TEST_P(BadInput, HeaderAlone) { expect_refused(file(good.substr(0, 64)), "truncated"); }
TEST_P(BadInput, HalfAFile)
{
	expect_refused(file(good.substr(0, good.size() / 2)), "truncated");
}

TEST_P(BadInput, ThirtyTwoBit)
{
	std::string bytes = good;

	bytes[EI_CLASS] = ELFCLASS32;
	expect_refused(file(bytes), "32-bit");
}

TEST_P(BadInput, ForeignMachine)
{
	std::string bytes = good;

	bytes[18] = static_cast<char>(EM_AARCH64);
	expect_refused(file(bytes), "another machine");
}

TEST_P(BadInput, ForeignByteOrder)
{
	std::string bytes = good;

	bytes[EI_DATA] = ELFDATA2MSB;
	expect_refused(file(bytes), "only x86-64");
}

TEST_P(BadInput, ObjectFile)
{
	std::string bytes = good;

	bytes[16] = ET_REL;
	expect_refused(file(bytes), "neither an executable nor a shared object");
}

TEST_P(BadInput, ProgramHeadersElsewhere)
{
	std::string bytes = good;

	bytes[32 + 7] = 0x7f;	// e_phoff
	expect_refused(file(bytes), "truncated");
}

TEST_P(BadInput, Fifo)
{
	ASSERT_EQ(mkfifo((tmp / "fifo").c_str(), 0600), 0);
	expect_refused(tmp / "fifo", "no regular file");
}

void become_nobody()
{
	if (geteuid() == 0 && (setgid(65534) || setuid(65534)))
		_exit(126);
}

TEST_P(BadInput, Unreadable)
{
	ASSERT_EQ(chmod(tmp.path().c_str(), 0755), 0);
	const std::string path = file(good);
	ASSERT_EQ(chmod(path.c_str(), 0), 0);
	if (access(getenv("SFRAMECTL"), X_OK))
		GTEST_SKIP() << "sframectl cannot be run";
	const Outcome probe = sframectl({ "--version" }, {}, become_nobody);
	if (!probe.exited(0))
		GTEST_SKIP() << "another user may not run the sframectl of this build tree";
	expect_refused(path, "Permission denied", become_nobody);
}

// Every prefix of the headers, then every byte of them set to 0xff: an answer,
// no crash, no silence.
TEST_P(BadInput, DamagedHeaders)
{
	for (size_t at = 4; at < 64 + 56 * 13; at += 5) {
		std::string bytes = good;

		bytes[at] = static_cast<char>(0xff);
		const Outcome o = sframectl({ GetParam(), file(bytes) });

		ASSERT_TRUE(WIFEXITED(o.status)) << "byte " << at;
		ASSERT_TRUE(o.exited(0) || (o.exited(kCannot) && lines(o.err) == 1) ||
			    o.exited(1))
			<< "byte " << at << ": " << o.status << o.err;
	}
}

TEST_P(BadInput, WrongUsage)
{
	for (const Strings &arguments : { Strings{}, Strings{ "--nonsense", kGood } }) {
		Strings command = { GetParam() };

		command.insert(command.end(), arguments.begin(), arguments.end());
		const Outcome o = sframectl(command);
		EXPECT_TRUE(o.exited(kUsage)) << o.status;
		EXPECT_EQ(lines(o.err), 1U) << o.err;
		EXPECT_TRUE(contains(o.err, "--help")) << o.err;
	}
}

TEST_P(BadInput, HelpTellsTheExitStatus)
{
	const Outcome o = sframectl({ GetParam(), "--help" });

	EXPECT_TRUE(o.exited(0));
	EXPECT_TRUE(contains(o.out, "Exit status")) << o.out;
}

// The good file among the bad ones is done all the same.
TEST_P(BadInput, OthersAreDoneAllTheSame)
{
	const Outcome o = sframectl({ GetParam(), "--json", tmp / "none", kGood, file("text") });

	EXPECT_TRUE(o.exited(kCannot));
	EXPECT_EQ(lines(o.err), 2U) << o.err;
	EXPECT_GT(number(o.out, "functions"), 1000) << o.out;
}

INSTANTIATE_TEST_SUITE_P(Commands, BadInput, testing::Values("check", "synth"),
			 [](const auto &info) { return std::string(info.param); });

TEST(CheckInput, ADirectoryIsNoFile)
{
	TemporaryDirectory tmp;
	const Outcome o = sframectl({ "check", tmp.path() });

	EXPECT_TRUE(o.exited(kCannot));
	EXPECT_TRUE(contains(o.err, "is a directory")) << o.err;
}

TEST(CheckInput, NoSuchProcess)
{
	const Outcome o = sframectl({ "check", "--pid", "2147483647" });

	EXPECT_TRUE(o.exited(kCannot));
	EXPECT_EQ(lines(o.err), 1U) << o.err;
}

TEST(CheckInput, AProcessHasTheVdsoOfThisOne)
{
	const Outcome mine = sframectl({ "check", "--json", "[vdso]" });
	const Outcome other = sframectl({ "check", "--json", "--pid", std::to_string(getpid()) });

	if (!mine.exited(0))
		GTEST_SKIP() << mine.err;
	EXPECT_TRUE(other.exited(0)) << other.err;
	EXPECT_EQ(number(other.out, "rows"), number(mine.out, "rows"));
}

// A file with a section .sframe of these bytes.
class BadSection : public testing::Test {
protected:
	void SetUp() override
	{
		ASSERT_TRUE(sframectl({ "synth", "-o", tmp / "good", kGood }).exited(0));
		good = read_whole(tmp / "good");
		if (run({ "objcopy", "--version" }).exited(127))
			GTEST_SKIP() << "objcopy is not installed";
	}

	// Refused by name with --native; without it the reason is a note and the
	// section that is made is judged.
	void expect_refused(const std::string &bytes, const std::string &why)
	{
		write_whole(tmp / "section", bytes);
		ASSERT_TRUE(run({ "objcopy", "--add-section", ".sframe=" + tmp / "section",
				  "--set-section-flags", ".sframe=alloc,readonly", kGood,
				  tmp / "file" }).exited(0));
		const Outcome native = sframectl({ "check", "--native", tmp / "file" });
		EXPECT_TRUE(native.exited(kCannot)) << native.status << native.out;
		EXPECT_EQ(lines(native.err), 1U) << native.err;
		EXPECT_TRUE(contains(native.err, why)) << native.err;
		const Outcome best = sframectl({ "check", tmp / "file" });
		EXPECT_TRUE(best.exited(0)) << best.err;
		EXPECT_TRUE(contains(best.out, "synthesized section")) << best.out;
		EXPECT_TRUE(contains(best.out, why)) << best.out;
	}

	TemporaryDirectory tmp;
	std::string good;
};

TEST_F(BadSection, Garbage) { expect_refused(std::string(4096, '\x5a'), "bad magic"); }
TEST_F(BadSection, ShorterThanItsHeader)
{
	expect_refused(good.substr(0, 27), "shorter than a header");
}
TEST_F(BadSection, Concatenated)
{
	expect_refused(good + std::string(-good.size() & 7, '\0') + good, "concatenated");
}
TEST_F(BadSection, HugeCounts)
{
	std::string bytes = good;

	bytes.replace(8, 4, 4, '\xff');	// num_fdes
	expect_refused(bytes, "out of bounds");
}
TEST_F(BadSection, VersionOne)
{
	std::string bytes = good;

	bytes[2] = 1;
	expect_refused(bytes, "version 1");
}

// A linker that does not know the format leaves the PLT's entries and no others.
TEST_F(BadSection, TooFewFunctions)
{
	std::string bytes = good;

	bytes.replace(8, 4, std::string("\2\0\0\0", 4));	// num_fdes
	write_whole(tmp / "section", bytes);
	ASSERT_TRUE(run({ "objcopy", "--add-section", ".sframe=" + tmp / "section",
			  "--set-section-flags", ".sframe=alloc,readonly", kGood, tmp / "file" })
			    .exited(0));
	const Outcome o = sframectl({ "check", tmp / "file" });
	EXPECT_TRUE(o.exited(0)) << o.err;
	EXPECT_TRUE(contains(o.out, "too few functions")) << o.out;
}

} // namespace
