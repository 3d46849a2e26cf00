// SPDX-License-Identifier: MIT
//
// sframectl run: the program runs as without it, whatever it is, and one line
// tells what was registered.
#include <cstring>
#include <elf.h>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include "process.h"

namespace {

namespace fs = std::filesystem;

const std::string kSframectl = built("SFRAMECTL");
const std::string kTarget = built("TARGET");

class Run : public testing::Test {
protected:
	Outcome run_it(const Strings &arguments, const Environment &more = {},
		       void (*prepare)() = nullptr)
	{
		Strings argv = { kSframectl, "run" };
		Environment all = { { "XDG_CACHE_HOME", home_.path() } };

		argv.insert(argv.end(), arguments.begin(), arguments.end());
		for (const auto &[name, value] : more)
			all[name] = value;
		return run(argv, all, prepare);
	}

	static size_t lines(const std::string &text)
	{
		size_t n = 0;

		for (const char c : text)
			n += c == '\n';
		return n;
	}

	static void expect_summary(const Outcome &outcome)
	{
		EXPECT_NE(outcome.err.find("objects registered ("), std::string::npos) << outcome.err;
		EXPECT_EQ(lines(outcome.err), 1u) << outcome.err;
	}

	// One clear line, and the program ran.
	void expect_line(const Strings &arguments, const std::string &why, const std::string &out)
	{
		const Outcome outcome = run_it(arguments);

		EXPECT_EQ(outcome.out, out);
		EXPECT_EQ(lines(outcome.err), 1u) << outcome.err;
		EXPECT_NE(outcome.err.find(why), std::string::npos) << outcome.err;
	}

	TemporaryDirectory home_;
};

TEST_F(Run, SaysWhatWasRegistered)
{
	const Outcome cold = run_it({ "--", kTarget });
	const Outcome warm = run_it({ "--", kTarget });
	unsigned objects = 0, native = 0, made = 0, refused = 0, hits = 0, anew = 0;

	expect_summary(cold);
	expect_summary(warm);
	const char *counts = strstr(warm.err.c_str(), ": ");
	ASSERT_NE(counts, nullptr);
	counts = strstr(counts + 2, ": ");
	ASSERT_NE(counts, nullptr);
	EXPECT_EQ(sscanf(counts,
			 ": %u objects registered (%u native, %u synthesized), %u refused; "
			 "cache: %u hits, %u made", &objects, &native, &made, &refused, &hits, &anew),
		  6) << warm.err;
	EXPECT_GE(objects, 5u);	// program, libstdc++, libgcc_s, libm, libc, ld.so, vDSO
	EXPECT_EQ(objects, native + made);
	EXPECT_EQ(refused, 0u);
	EXPECT_EQ(hits, made);
	EXPECT_EQ(anew, 0u);
}

TEST_F(Run, PreloadDoesTheSame)
{
	const Outcome outcome = run_it({ "--preload", "--", kTarget, "env:LD_PRELOAD", "exit:3" });

	expect_summary(outcome);
	EXPECT_EQ(outcome.out, "LD_PRELOAD=(none)\n");
	EXPECT_TRUE(outcome.exited(3));
}

TEST_F(Run, QuietIsQuiet)
{
	EXPECT_EQ(run_it({ "-q", kTarget }).err, "");
}

TEST_F(Run, ExitStatusPasses)
{
	EXPECT_TRUE(run_it({ kTarget, "exit:0" }).exited(0));
	EXPECT_TRUE(run_it({ kTarget, "exit:77" }).exited(77));
	EXPECT_TRUE(run_it({ kTarget, "exit:255" }).exited(255));
}

TEST_F(Run, SignalsPassAndTheSummaryStays)
{
	const Outcome aborted = run_it({ kTarget, "abort:" }, {}, [] {
		const struct rlimit none = { 0, 0 };

		setrlimit(RLIMIT_CORE, &none);
	});

	EXPECT_TRUE(aborted.killed(SIGABRT));
	expect_summary(aborted);
	EXPECT_TRUE(run_it({ "sh", "-c", "kill -KILL $$" }).killed(SIGKILL));
	EXPECT_TRUE(run_it({ "sh", "-c", "kill -TERM $$" }).killed(SIGTERM));
}

TEST_F(Run, SignalsReachTheProgram)
{
	Process process({ kSframectl, "run", "sh", "-c",
			  "trap 'echo got; exit 12' TERM; echo ready; while :; do read x; done" },
			{ { "XDG_CACHE_HOME", home_.path() } });

	ASSERT_TRUE(process.wait_for("ready\n"));
	kill(process.pid(), SIGTERM);
	ASSERT_TRUE(process.wait_for("got\n"));
	EXPECT_TRUE(process.finish().exited(12));
}

TEST_F(Run, IgnoredSignalsStayIgnored)
{
	const Outcome outcome = run_it({ "sh", "-c", "kill -HUP $$; echo alive" }, {},
				       [] { signal(SIGHUP, SIG_IGN); });

	EXPECT_EQ(outcome.out, "alive\n");
}

TEST_F(Run, InputAndDescriptorsPass)
{
	Process process({ kSframectl, "run", "cat" }, { { "XDG_CACHE_HOME", home_.path() } });

	process.say("through\n");
	ASSERT_TRUE(process.wait_for("through\n"));
	const Outcome outcome = process.finish();
	EXPECT_TRUE(outcome.exited(0));
	EXPECT_EQ(run_it({ kTarget, "fds:" }).out, run({ kTarget, "fds:" }).out);
}

TEST_F(Run, OptionsOfTheProgramAreItsOwn)
{
	EXPECT_EQ(run_it({ "echo", "-n", "--preload" }).out, "--preload");
}

TEST_F(Run, NoSuchProgram)
{
	const Outcome outcome = run_it({ "/no/such/program" });

	EXPECT_TRUE(outcome.exited(127));
	EXPECT_EQ(outcome.err, "sframectl: /no/such/program: No such file or directory\n");
	EXPECT_TRUE(run_it({ "no-such-program-anywhere" }).exited(127));
}

TEST_F(Run, NotExecutable)
{
	EXPECT_TRUE(run_it({ "/etc/passwd" }).exited(126));
	EXPECT_TRUE(run_it({ "/" }).exited(126));
}

TEST_F(Run, NothingToRun)
{
	EXPECT_TRUE(run_it({}).exited(2));
	EXPECT_TRUE(run_it({ "--nonsense", "ls" }).exited(2));
	EXPECT_TRUE(run_it({ "--help" }).exited(0));
}

TEST_F(Run, StaticProgram)
{
	expect_line({ built("STATIC_TARGET") }, "statically linked", "static\n");
}

TEST_F(Run, SetuidProgram)
{
	const std::string copy = home_ / "setuid";

	fs::copy(kTarget, copy);
	chmod(home_.path().c_str(), 0755);
	if (chown(copy.c_str(), 65534, 65534) < 0 || chmod(copy.c_str(), 04755) < 0)
		GTEST_SKIP() << "only root can make a program that is setuid to somebody else";
	expect_line({ copy, "env:LD_AUDIT" }, "setuid", "LD_AUDIT=(none)\n");
}

// A 32-bit program need not run here to be told from others: its header is enough.
TEST_F(Run, ThirtyTwoBitProgram)
{
	const std::string path = home_ / "small";
	Elf32_Ehdr eh = {};

	memcpy(eh.e_ident, ELFMAG, SELFMAG);
	eh.e_ident[EI_CLASS] = ELFCLASS32;
	eh.e_ident[EI_DATA] = ELFDATA2LSB;
	eh.e_type = ET_EXEC;
	eh.e_machine = EM_386;
	std::ofstream(path).write(reinterpret_cast<const char *>(&eh), sizeof(eh));
	chmod(path.c_str(), 0755);
	const Outcome outcome = run_it({ path });
	EXPECT_NE(outcome.err.find("it is a 32-bit program"), std::string::npos) << outcome.err;
	EXPECT_TRUE(outcome.exited(126));
}

TEST_F(Run, ScriptIsRunByItsInterpreter)
{
	const std::string path = home_ / "script";

	std::ofstream(path) << "#!/bin/sh\necho script $1\nexit 4\n";
	chmod(path.c_str(), 0755);
	const Outcome outcome = run_it({ path, "argument" });
	EXPECT_EQ(outcome.out, "script argument\n");
	EXPECT_TRUE(outcome.exited(4));
	expect_summary(outcome);
}

TEST_F(Run, TextWithoutInterpreterGoesToTheShell)
{
	const std::string path = home_ / "text";

	std::ofstream(path) << "echo text $1\n";
	chmod(path.c_str(), 0755);
	EXPECT_EQ(run_it({ path, "argument" }).out, "text argument\n");
}

TEST_F(Run, FollowsIfAsked)
{
	const Outcome alone = run_it({ "sh", "-c", "/bin/true; /bin/true" });
	const Outcome all = run_it({ "--follow", "sh", "-c", "/bin/true; /bin/true; exit 8" });

	EXPECT_EQ(alone.err.find(" processes"), std::string::npos) << alone.err;
	EXPECT_NE(all.err.find("in 3 processes"), std::string::npos) << all.err;
	EXPECT_TRUE(all.exited(8));
}

TEST_F(Run, LibraryNotFound)
{
	const Outcome outcome = run_it({ "echo", "runs" }, { { "SFRAME_LIBDIR", "/nonexistent" } });

	EXPECT_EQ(outcome.out, "runs\n");
	EXPECT_NE(outcome.err.find("SFRAME_LIBDIR"), std::string::npos);
	EXPECT_EQ(lines(outcome.err), 1u);
}

} // namespace
