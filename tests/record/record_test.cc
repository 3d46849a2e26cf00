// SPDX-License-Identifier: MIT
//
// `sframectl record` with whole programs: what is sampled, and that the
// program runs as it does without us.
#include <gtest/gtest.h>
#include <fstream>
#include <set>
#include <algorithm>
#include <signal.h>
#include <sstream>
#include <string>
#include <sys/resource.h>
#include "audit/process.h"
#include "record/profile.h"

using namespace sframe::record;

namespace {

const std::string sframectl = built("SFRAMECTL");
const std::string victim = built("VICTIM");

// A recorded program and its profile.
struct Recording {
	TemporaryDirectory directory;
	Outcome outcome;
	Profile profile;

	explicit Recording(const Strings &program, const Strings &options = {},
			   void (*prepare)() = nullptr)
	{
		Strings argv = { sframectl, "record", "-o", file() };
		argv.insert(argv.end(), options.begin(), options.end());
		argv.push_back("--");
		argv.insert(argv.end(), program.begin(), program.end());
		outcome = run(argv, {}, prepare);
		read();
	}

	std::string file() const { return directory / "data"; }

	void read()
	{
		std::string why;
		EXPECT_TRUE(read_profile_file(file(), &profile, &why)) << why << outcome.err;
	}

	std::string report(const std::string &how) const
	{
		return run({ sframectl, "report", how, file() }).out;
	}

	size_t complete() const
	{
		return std::count_if(profile.samples.begin(), profile.samples.end(),
				     [](const Sample &s) { return s.complete(); });
	}

	// Share of the samples whose folded stack holds @frame.
	double share(const std::string &frame) const
	{
		std::istringstream lines(report("--folded"));
		double with = 0, all = 0;
		for (std::string line; std::getline(lines, line);) {
			const double n = atof(line.substr(line.rfind(' ')).c_str());
			all += n;
			if ((line + ";").find(";" + frame) != std::string::npos)
				with += n;
		}
		return all ? with / all : 0;
	}

	std::set<uint32_t> processes() const
	{
		std::set<uint32_t> pids;
		for (const Sample &s : profile.samples)
			pids.insert(s.pid);
		return pids;
	}
};

#define EXPECT_RAN(recording)                                                                          \
	EXPECT_TRUE((recording).outcome.exited(0)) << (recording).outcome.out << (recording).outcome.err

TEST(Record, PythonInThreadsIsComplete)
{
	Recording r({ "/usr/bin/python3", "-c",
		      "import threading, time, hashlib, json, zlib, sqlite3, decimal\n"
		      "def work():\n"
		      "  while time.thread_time() < 0.25:\n"
		      "    hashlib.sha256(b'x' * 200000).digest(); zlib.compress(b'ab' * 20000)\n"
		      "    json.loads(json.dumps(list(range(3000))))\n"
		      "threads = [threading.Thread(target=work) for i in range(4)]\n"
		      "[t.start() for t in threads]; [t.join() for t in threads]\n" },
		    { "-F", "250" });
	EXPECT_RAN(r);
	ASSERT_GE(r.profile.samples.size(), 50u);
	EXPECT_EQ(r.profile.threads().size(), 5u);
	EXPECT_EQ(r.profile.lost, 0u);
	EXPECT_GE(static_cast<double>(r.complete()), 0.95 * static_cast<double>(r.profile.samples.size()))
		<< r.report("--json");
}

TEST(Record, HotFunctionsHaveTheirShare)
{
	Recording r({ victim, "shares" }, { "-F", "250" });
	EXPECT_RAN(r);
	EXPECT_GE(r.profile.samples.size(), 200u);
	EXPECT_NEAR(r.share("spin_major"), 0.7, 0.1);
	EXPECT_NEAR(r.share("spin_minor"), 0.3, 0.1);
	EXPECT_GE(static_cast<double>(r.complete()), 0.99 * static_cast<double>(r.profile.samples.size()));
}

TEST(Record, ThousandsOfThreadsHaveTimers)
{
	Recording r({ victim, "threads", "2000" }, { "-F", "997" });
	EXPECT_RAN(r);
	EXPECT_EQ(r.profile.timers + r.profile.unsampled_threads, 2001u);
	// 2 ms of CPU time each: sampled where the kernel's tick met them.
	EXPECT_GE(r.profile.threads().size(), 30u);
	EXPECT_GE(static_cast<double>(r.complete()), 0.98 * static_cast<double>(r.profile.samples.size()))
		<< r.report("--json");
}

TEST(Record, ThreadsWithoutATimerAreCounted)
{
	Recording r({ victim, "threads", "50" }, {}, [] {
		const struct rlimit few = { 20, 20 };
		setrlimit(RLIMIT_SIGPENDING, &few);
	});
	EXPECT_RAN(r);
	EXPECT_GE(r.profile.unsampled_threads, 41u);	// half of the limit is the program's
	EXPECT_NE(r.outcome.err.find("threads without a timer"), std::string::npos) << r.outcome.err;
}

TEST(Record, ProgramsOwnSigprofWorks)
{
	Recording r({ victim, "sigprof" });
	EXPECT_RAN(r);
	EXPECT_GE(r.profile.samples.size(), 50u);
}

TEST(Record, AllSignalsBlocked)
{
	Recording r({ victim, "block" });
	EXPECT_RAN(r);
	EXPECT_GE(r.profile.samples.size(), 60u);
	EXPECT_EQ(r.profile.threads().size(), 2u);
}

TEST(Record, AllSignalsReset)
{
	Recording r({ victim, "reset" });
	EXPECT_RAN(r);
	EXPECT_GE(r.profile.samples.size(), 60u);
}

TEST(Record, WaitingForAllSignalsSeesNoneOfOurs)
{
	Recording r({ victim, "sigwait" }, { "-F", "997", "--wall" });
	EXPECT_RAN(r);
	EXPECT_EQ(r.profile.threads().size(), 2u);
}

TEST(Record, ProgramMayUseOurSignalItself)
{
	const std::string number = std::to_string(SIGRTMAX - 2);
	Recording r({ victim, "number", number });
	EXPECT_RAN(r);
	EXPECT_GE(r.profile.samples.size(), 30u);
}

TEST(Record, AnotherSignalCanBeChosen)
{
	Recording r({ victim, "shares" }, { "--signal", std::to_string(SIGRTMIN + 5) });
	EXPECT_RAN(r);
	EXPECT_GE(r.profile.samples.size(), 100u);
}

TEST(Record, WallTimeSeesSleepers)
{
	Recording r({ victim, "sleep" }, { "--wall" });
	EXPECT_RAN(r);
	EXPECT_GE(r.profile.samples.size(), 50u);
	EXPECT_GE(r.share("wait_in_sleep"), 0.8);
}

TEST(Record, CpuTimeDoesNotSeeSleepers)
{
	Recording r({ victim, "sleep" });
	EXPECT_RAN(r);
	EXPECT_LE(r.profile.samples.size(), 10u);
}

TEST(Record, WaitsAreNotInterrupted)
{
	Recording r({ victim, "waits" }, { "--wall", "-F", "250" });
	EXPECT_RAN(r);
	EXPECT_GE(r.profile.samples.size(), 200u);
}

TEST(Record, WaitsEndByTheProgramsSignals)
{
	Recording r({ victim, "wakes" }, { "--wall", "-F", "250" });
	EXPECT_RAN(r);
}

TEST(Record, HandlersOnAlternateStacksAreComplete)
{
	Recording r({ victim, "altstack" }, { "-F", "250" });
	EXPECT_RAN(r);
	EXPECT_NEAR(r.share("spin_minor"), 0.6, 0.2);
	EXPECT_GE(static_cast<double>(r.complete()), 0.98 * static_cast<double>(r.profile.samples.size()))
		<< r.report("--json");
}

TEST(Record, ExecChainGoesIntoOneProfile)
{
	Recording r({ victim, "exec", "5" });
	EXPECT_RAN(r);
	EXPECT_EQ(r.profile.images.size(), 6u);
	EXPECT_EQ(r.processes().size(), 1u);
	std::set<uint32_t> images;
	for (const Sample &s : r.profile.samples)
		images.insert(s.image);
	EXPECT_EQ(images.size(), 6u);
}

TEST(Record, ExecBringsTheSamplerThroughAnEmptyEnvironment)
{
	Recording r({ "env", "-i", victim, "shares" });
	EXPECT_RAN(r);
	EXPECT_GE(r.profile.samples.size(), 100u);
}

TEST(Record, ForkedChildrenAreLeftAlone)
{
	Recording r({ victim, "fork" });
	EXPECT_RAN(r);
	EXPECT_EQ(r.processes().size(), 1u);
	EXPECT_EQ(r.profile.images.size(), 1u);
}

TEST(Record, ForkedChildrenAreFollowedOnRequest)
{
	Recording r({ victim, "fork" }, { "--follow" });
	EXPECT_RAN(r);
	EXPECT_EQ(r.processes().size(), 5u);
	EXPECT_GE(r.profile.threads().size(), 5u);	// the innermost two burn in a thread only
	EXPECT_GE(static_cast<double>(r.complete()), 0.98 * static_cast<double>(r.profile.samples.size()))
		<< r.report("--json");
}

TEST(Record, ChildrenSeeNothingOfUs)
{
	const Outcome without = run({ victim, "children" });
	Recording r({ victim, "children" });
	EXPECT_RAN(r);
	EXPECT_EQ(r.outcome.out, without.out);
	EXPECT_EQ(r.profile.images.size(), 1u);
}

TEST(Record, ChildrenHoweverStartedAreFollowed)
{
	Recording r({ victim, "children" }, { "--follow" });
	EXPECT_RAN(r);
	std::set<uint32_t> pids;
	for (const auto &[number, image] : r.profile.images)
		pids.insert(image.pid);
	EXPECT_GE(pids.size(), 5u);	// itself, system's shell (or what it became), and three
}

TEST(Record, CrashKeepsWhatWasSampled)
{
	for (const int sig : { SIGSEGV, SIGKILL }) {
		Recording r({ victim, "crash", std::to_string(sig) });
		EXPECT_TRUE(r.outcome.killed(sig));
		EXPECT_GE(r.profile.samples.size(), 10u);
		EXPECT_TRUE(r.profile.ended);
		EXPECT_EQ(r.profile.wait_status & 0x7f, sig);
	}
}

TEST(Record, ExitCodeComesThrough)
{
	for (const int code : { 0, 1, 42, 255 })
		EXPECT_TRUE(Recording({ victim, "exit", std::to_string(code) }).outcome.exited(code));
}

TEST(Record, KilledRecorderLeavesAValidProfileAndARunningProgram)
{
	TemporaryDirectory directory;
	const std::string file = directory / "data";
	const std::string go = directory / "go";
	Process recorder({ sframectl, "record", "-o", file, "--", "sh", "-c",
			   "echo begun; until [ -e '" + go + "' ]; do :; done; echo finished" });
	ASSERT_TRUE(recorder.wait_for("begun"));
	Profile profile;
	std::string why;
	const auto sampled = [&] {
		profile = {};
		return read_profile_file(file, &profile, &why) && profile.samples.size() >= 5;
	};
	for (int tries = 0; !sampled() && tries < 3000; tries++)
		usleep(10000);
	kill(recorder.pid(), SIGKILL);
	std::ofstream(go).flush();
	const Outcome outcome = recorder.finish();	// when the program has closed its output
	EXPECT_TRUE(outcome.killed(SIGKILL));
	EXPECT_NE(outcome.out.find("finished"), std::string::npos);
	profile = {};
	ASSERT_TRUE(read_profile_file(file, &profile, &why)) << why;
	EXPECT_FALSE(profile.ended);
	EXPECT_GE(profile.samples.size(), 5u);
	// The next recorder removes the ring that was left behind.
	Recording({ "true" });
	for (const auto &entry : std::filesystem::directory_iterator("/dev/shm"))
		EXPECT_EQ(entry.path().string().find("." + std::to_string(recorder.pid()) + "."), std::string::npos);
}

TEST(Record, WhatCannotBeSampledRunsAllTheSame)
{
	TemporaryDirectory directory;
	const std::string file = directory / "data";
	const Outcome missing = run({ sframectl, "record", "-o", file, "--", "/no/such/program" });
	EXPECT_TRUE(missing.exited(127));
	EXPECT_EQ(std::count(missing.err.begin(), missing.err.end(), '\n'), 1) << missing.err;
	const Outcome no_program = run({ sframectl, "record", "-o", file, "--", "/etc/passwd" });
	EXPECT_TRUE(no_program.exited(126));
	EXPECT_EQ(std::count(no_program.err.begin(), no_program.err.end(), '\n'), 1) << no_program.err;
	const Outcome fixed = run({ sframectl, "record", "-o", file, "--", built("STATIC_VICTIM"), "exit", "7" });
	EXPECT_TRUE(fixed.exited(7)) << fixed.err;
	EXPECT_EQ(std::count(fixed.err.begin(), fixed.err.end(), '\n'), 1) << fixed.err;
}

TEST(Record, UnwritableOutputIsSaidBeforeTheStart)
{
	const Outcome o = run({ sframectl, "record", "-o", "/no/such/directory/data", "--", "echo", "ran" });
	EXPECT_TRUE(o.exited(3));
	EXPECT_EQ(o.out, "");
	EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
}

TEST(Record, NothingIsLeftInSharedMemory)
{
	const auto rings = [] {
		size_t n = 0;
		for (const auto &entry : std::filesystem::directory_iterator("/dev/shm"))
			n += entry.path().filename().string().rfind("sframe-ring.", 0) == 0;
		return n;
	};
	const size_t before = rings();
	Recording({ victim, "crash", "11" });
	Recording({ "true" });
	EXPECT_LE(rings(), before);
}

} // namespace
