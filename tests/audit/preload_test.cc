// SPDX-License-Identifier: MIT
//
// Whole programs under libsframe-preload.so. The first thing to hold: dlopen()
// answers as without it, whoever calls. The second: what it loaded is
// registered when it returns.
#include <gtest/gtest.h>
#include "process.h"
#include "registrations.h"

namespace {

namespace fs = std::filesystem;

const std::string kPreload = built("PRELOAD");
const std::string kTarget = built("TARGET");
const std::string kLibraries = built("LIBRARIES") + "/";
const std::string kOpen = "open:", kSpace = "space:";

class Preloaded : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		unsetenv("LD_LIBRARY_PATH");	// meson's: libraries are to be found by RUNPATH
		home = new TemporaryDirectory;
	}
	static void TearDownTestSuite() { delete home; }

	static Environment environment(const Environment &more = {})
	{
		Environment all = { { "LD_PRELOAD", kPreload }, { "XDG_CACHE_HOME", home->path() } };

		for (const auto &[name, value] : more)
			all[name] = value;
		return all;
	}

	static Strings target(const Strings &verbs)
	{
		Strings argv = { kTarget };

		argv.insert(argv.end(), verbs.begin(), verbs.end());
		return argv;
	}

	// The same with and without; returns what was written.
	static std::string unnoticed(const Strings &verbs)
	{
		const Outcome without = run(target(verbs), { { "LD_PRELOAD", "" } });
		const Outcome with = run(target(verbs), environment());

		EXPECT_EQ(with.out, without.out);
		EXPECT_EQ(with.err, without.err);
		EXPECT_EQ(with.status, without.status);
		return with.out;
	}

	static TemporaryDirectory *home;
};

TemporaryDirectory *Preloaded::home;

std::string library(const std::string &name) { return kLibraries + name; }

TEST_F(Preloaded, RegistersWhatIsThereAndWhatComes)
{
	Process process(target({ kOpen + library("libneeds.so"), "call:twice", "pause:", "close:",
				 "pause:" }),
			environment());

	ASSERT_TRUE(process.wait_for("paused\n"));
	auto list = registrations(process.pid());
	EXPECT_EQ(count_named(list, "libneeds.so"), 1u);
	EXPECT_EQ(count_named(list, "libplain.so"), 1u) << "a dependency";
	EXPECT_EQ(count_named(list, "target"), 1u);
	EXPECT_EQ(count_named(list, "linux-vdso.so.1"), 1u);
	EXPECT_EQ(unregistered(process.pid()), Strings());
	process.say("\n");
	ASSERT_TRUE(process.wait_for("closed 0\npaused\n"));
	list = registrations(process.pid());
	EXPECT_EQ(count_named(list, "libneeds.so"), 0u);
	EXPECT_EQ(count_named(list, "libplain.so"), 0u);
}

TEST_F(Preloaded, RegisteredWhenDlopenReturns)
{
	const Outcome outcome = run(
		target({ kOpen + library("libwitness.so"), "call:now", "call:complete" }), environment());

	EXPECT_EQ(outcome.out, "ok\nnow 0\ncomplete 1\n");
}

TEST_F(Preloaded, CallersRunpathHolds)
{
	EXPECT_EQ(unnoticed({ kOpen + library("libopener.so"), "call:by_runpath", "call:close_it",
			      "open:libhidden.so" }),
		  "ok\nby_runpath 42\nclose_it 0\n"
		  "failed: libhidden.so: cannot open shared object file: "
		  "No such file or directory\n");
}

TEST_F(Preloaded, CallersOriginHolds)
{
	EXPECT_EQ(unnoticed({ kOpen + library("libopener.so"), "call:by_origin", "call:close_it" }),
		  "ok\nby_origin 42\nclose_it 0\n");
}

TEST_F(Preloaded, CallersNamespaceHolds)
{
	Process process(target({ kSpace + library("libopener.so"), "call:by_runpath",
				 "space:libm.so.6", "pause:" }),
			environment());

	ASSERT_TRUE(process.wait_for("by_runpath 42\nok\npaused\n"));
	const auto list = registrations(process.pid());
	EXPECT_EQ(count_named(list, "libopener.so"), 1u);
	EXPECT_EQ(count_named(list, "libhidden.so"), 1u) << "seen at the next call at the latest";
	EXPECT_EQ(count_named(list, "libc.so.6"), 3u);
}

TEST_F(Preloaded, NothingElseChangesEither)
{
	unnoticed({ "open:libnowhere.so" });
	unnoticed({ kOpen + library("libbroken.so") });
	unnoticed({ "open:/etc/passwd" });
	unnoticed({ "self:", "close:" });
	unnoticed({ "noload:libm.so.6" });
	unnoticed({ "noload:libc.so.6", "where:", "close:" });
	unnoticed({ "deep:" + library("libneeds.so"), "call:twice", "close:" });
	unnoticed({ "nodelete:" + library("libneeds.so"), "close:", "noload:libneeds.so" });
	unnoticed({ kSpace + library("libneeds.so"), "call:twice", "close:" });
	unnoticed({ "space:libnowhere.so" });
	unnoticed({ kOpen + library("libopener.so"), "call:missing" });
	unnoticed({ "env:LD_PRELOAD", "env:SFRAME_REPORT" });
	unnoticed({ "fds:", kOpen + library("libneeds.so"), "fds:" });
	unnoticed({ "shell:echo $LD_PRELOAD; exit 4", "exit:9" });
	unnoticed({ "abort:" });
}

// A constructor that opens, a destructor that closes.
TEST_F(Preloaded, NestedCalls)
{
	EXPECT_EQ(unnoticed({ kOpen + library("libnested.so"), "call:inner", "close:" }),
		  "ok\ninner 1\nclosed 0\n");
	Process process(target({ kOpen + library("libnested.so"), "pause:", "close:", "pause:" }),
			environment());
	ASSERT_TRUE(process.wait_for("paused\n"));
	EXPECT_EQ(count_named(registrations(process.pid()), "libhidden.so"), 1u);
	process.say("\n");
	ASSERT_TRUE(process.wait_for("closed 0\npaused\n"));
	EXPECT_EQ(count_named(registrations(process.pid()), "libhidden.so"), 0u);
	EXPECT_EQ(count_named(registrations(process.pid()), "libnested.so"), 0u);
}

TEST_F(Preloaded, AnotherLibraryAtTheSameAddress)
{
	Process process(target({ kOpen + library("libplain.so"), "close:",
				 kOpen + library("libother.so"), "call:answer", "pause:" }),
			environment());

	ASSERT_TRUE(process.wait_for("answer 43\npaused\n"));
	EXPECT_EQ(count_named(registrations(process.pid()), "libplain.so"), 0u);
	EXPECT_EQ(count_named(registrations(process.pid()), "libother.so"), 1u);
}

// The stack of a constructor: dlopen() returns through a ret of the caller's.
TEST_F(Preloaded, StacksInConstructorsAreWhole)
{
	const Outcome outcome = run({ "/usr/bin/python3", "-c",
				      "import ctypes\n"
				      "w = ctypes.CDLL('" + library("libunwinds.so") + "')\n"
				      "print(w.complete_in_constructor())" },
				    environment());

	EXPECT_EQ(outcome.out, "1\n") << outcome.err;
}

TEST_F(Preloaded, NothingIsLeftInSharedMemory)
{
	Process process(target({ "pause:", "exit:0" }), environment());

	ASSERT_TRUE(process.wait_for("paused\n"));
	const std::string part = std::string(".").append(std::to_string(process.pid())).append(".");
	const auto files = [&] {
		size_t n = 0;

		for (const auto &entry : fs::directory_iterator("/dev/shm"))
			n += entry.path().filename().string().find(part) != std::string::npos;
		return n;
	};
	EXPECT_EQ(files(), 1u);
	process.say("\n");
	EXPECT_TRUE(process.finish().exited(0));
	EXPECT_EQ(files(), 0u);
}

TEST_F(Preloaded, ForkedChild)
{
	EXPECT_EQ(run(target({ kOpen + library("libwitness.so"), "fork:", "call:now",
			       kOpen + library("libneeds.so"), "close:", "call:complete" }),
		      environment()).out,
		  "ok\nnow 0\nok\nclosed 0\ncomplete 1\n");
}

TEST_F(Preloaded, LoadingOverAndOverLeavesNothing)
{
	Process process(target({ "pause:", std::string("repeat:1000:") + library("libneeds.so"),
				 "pause:" }),
			environment());

	ASSERT_TRUE(process.wait_for("paused\n"));
	const auto before = registrations(process.pid()).size();
	process.say("\n");
	ASSERT_TRUE(process.wait_for("repeated\npaused\n"));
	EXPECT_EQ(registrations(process.pid()).size(), before);
}

TEST_F(Preloaded, ChildrenIfAsked)
{
	EXPECT_EQ(run(target({ "env:LD_PRELOAD" }), environment({ { "SFRAME_INHERIT", "1" } })).out,
		  std::string("LD_PRELOAD=") + kPreload + "\n");
}

TEST_F(Preloaded, BesideTheAuditor)
{
	const Outcome outcome = run(target({ kOpen + library("libwitness.so"), "call:in_constructor",
					     "call:now", "close:", kOpen + library("libneeds.so"),
					     "call:twice", "close:" }),
				    environment({ { "LD_AUDIT", built("AUDITOR") } }));

	EXPECT_EQ(outcome.out, "ok\nin_constructor 0\nnow 0\nclosed 0\nok\ntwice 84\nclosed 0\n");
	EXPECT_EQ(outcome.err, "");
	EXPECT_TRUE(outcome.exited(0));
}

} // namespace
