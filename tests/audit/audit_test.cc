// SPDX-License-Identifier: MIT
//
// Whole programs under libsframe-audit.so: what they load is registered, and
// they notice nothing.
#include <algorithm>
#include <cerrno>
#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include "process.h"
#include "registrations.h"

extern "C" void *__libc_stack_end;

namespace {

namespace fs = std::filesystem;

const std::string kAuditor = built("AUDITOR");
const std::string kTarget = built("TARGET");
const std::string kOpen = "open:", kSpace = "space:";
const std::string kLibraries = built("LIBRARIES") + "/";

// All processes of a test share one cache, so that it does not take long.
class Audited : public testing::Test {
protected:
	static void SetUpTestSuite() { home = new TemporaryDirectory; }
	static void TearDownTestSuite() { delete home; }

	// LD_LIBRARY_PATH is meson's: libraries are to be found by RUNPATH.
	static Environment environment(const Environment &more = {})
	{
		Environment all = { { "LD_AUDIT", kAuditor }, { "XDG_CACHE_HOME", home->path() },
				    { "LD_LIBRARY_PATH", "" } };

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

	// Runs with and without; what is written and how it ends is the same.
	static void expect_unnoticed(const Strings &argv, const Environment &more = {})
	{
		const Outcome without = run(argv, environment({ { "LD_AUDIT", "" } }));
		const Outcome with = run(argv, environment(more));

		EXPECT_EQ(with.out, without.out);
		EXPECT_EQ(with.err, without.err);
		EXPECT_EQ(with.status, without.status);
	}

	static TemporaryDirectory *home;
};

TemporaryDirectory *Audited::home;

std::string library(const std::string &name) { return kLibraries + name; }

TEST_F(Audited, EverythingThatPythonMaps)
{
	Process python({ "/usr/bin/python3", "-W", "ignore", "-c",
			 "import sqlite3, ssl, hashlib, json, zlib, ctypes, decimal, lzma, bz2, "
			 "curses, readline, asyncio, mmap, multiprocessing, resource, termios, "
			 "xml.parsers.expat, unicodedata, array, audioop, crypt, _hashlib, _lsprof, "
			 "_queue, _contextvars, _uuid, _elementtree, _opcode, _posixshmem\n"
			 "import sys\n"
			 "n = sum('lib-dynload' in (getattr(m, '__file__', '') or '') for m in "
			 "list(sys.modules.values()))\n"
			 "print('modules', n, flush=True)\n"
			 "print('ready', flush=True); sys.stdin.readline()" },
		       environment());

	ASSERT_TRUE(python.wait_for("ready")) << python.finish().err;
	EXPECT_EQ(unregistered(python.pid()), Strings());
	EXPECT_EQ(count_named(registrations(python.pid()), "linux-vdso.so.1"), 1u);
	EXPECT_EQ(count_named(registrations(python.pid()), "python3.11"), 1u);
	EXPECT_GE(executable_mappings(python.pid()).size(), 25u);
	python.say("\n");
	const Outcome outcome = python.finish();
	int modules = 0;
	sscanf(outcome.out.c_str(), "modules %d", &modules);
	EXPECT_GE(modules, 20);
	EXPECT_EQ(outcome.err, "");
	EXPECT_TRUE(outcome.exited(0));
}

TEST_F(Audited, RegisteredBeforeConstructorsRun)
{
	const Outcome outcome = run(target({ kOpen + library("libwitness.so"),
					     "call:in_constructor", "call:now" }),
				    environment());

	EXPECT_EQ(outcome.out, "ok\nin_constructor 0\nnow 0\n");
}

TEST_F(Audited, StacksAreWholeBySFrameAlone)
{
	const Outcome outcome =
		run(target({ kOpen + library("libwitness.so"), "call:complete" }), environment());

	EXPECT_EQ(outcome.out, "ok\ncomplete 1\n");
}

TEST_F(Audited, DependenciesComeAlongAndGoAgain)
{
	Process process(target({ kOpen + library("libneeds.so"), "call:twice", "pause:", "close:",
				 "pause:" }),
			environment());

	ASSERT_TRUE(process.wait_for("paused\n"));
	auto list = registrations(process.pid());
	EXPECT_EQ(count_named(list, "libneeds.so"), 1u);
	EXPECT_EQ(count_named(list, "libplain.so"), 1u);
	process.say("\n");
	ASSERT_TRUE(process.wait_for("closed 0\npaused\n"));
	list = registrations(process.pid());
	EXPECT_EQ(count_named(list, "libneeds.so"), 0u);
	EXPECT_EQ(count_named(list, "libplain.so"), 0u);
	EXPECT_EQ(unregistered(process.pid()), Strings());
}

// Known by mapping, not by name: the second library may lie where the first did.
TEST_F(Audited, AnotherLibraryAtTheSameAddress)
{
	Process process(target({ kOpen + library("libplain.so"), "pause:", "close:",
				 kOpen + library("libother.so"), "call:answer", "pause:" }),
			environment());
	const auto find = [&](const std::string &name) {
		for (const Registration &r : registrations(process.pid()))
			if (r.name() == name)
				return r;
		return Registration{};
	};

	ASSERT_TRUE(process.wait_for("paused\n"));
	const Registration first = find("libplain.so");
	process.say("\n");
	ASSERT_TRUE(process.wait_for("answer 43\npaused\n"));
	const Registration second = find("libother.so");
	EXPECT_EQ(find("libplain.so").end, 0u);
	EXPECT_NE(second.end, 0u);
	EXPECT_NE(second.id, first.id);
	EXPECT_EQ(second.start, first.start) << "they do not meet: nothing was tested";
}

TEST_F(Audited, SameLibraryAgainIsAnotherRegistration)
{
	Process process(target({ kOpen + library("libplain.so"), "pause:", "close:",
				 kOpen + library("libplain.so"), "call:answer", "pause:" }),
			environment());
	const auto id = [&] {
		for (const Registration &r : registrations(process.pid()))
			if (r.name() == "libplain.so")
				return r.id;
		return uint64_t{0};
	};

	ASSERT_TRUE(process.wait_for("paused\n"));
	const uint64_t first = id();
	process.say("\n");
	ASSERT_TRUE(process.wait_for("answer 42\npaused\n"));
	EXPECT_NE(id(), 0u);
	EXPECT_NE(id(), first);
}

TEST_F(Audited, EveryNamespace)
{
	Process process(target({ kSpace + library("libopener.so"), "call:by_runpath",
				 kSpace + library("libopener.so"), "call:by_origin", "pause:" }),
			environment());

	ASSERT_TRUE(process.wait_for("paused\n"));
	const auto list = registrations(process.pid());
	EXPECT_EQ(count_named(list, "libopener.so"), 2u);
	EXPECT_EQ(count_named(list, "libhidden.so"), 2u);
	EXPECT_EQ(count_named(list, "libc.so.6"), 3u);
	EXPECT_EQ(unregistered(process.pid()), Strings());
}

TEST_F(Audited, FirstSegmentNotAtZero)
{
	Process process(target({ kOpen + library("libhigh.so"), "call:answer", "pause:" }),
			environment());

	ASSERT_TRUE(process.wait_for("answer 42\npaused\n"));
	EXPECT_EQ(count_named(registrations(process.pid()), "libhigh.so"), 1u);
}

TEST_F(Audited, HeadersThatAreNotMapped)
{
	Process process(target({ kOpen + library("libnoheader.so"), "call:answer", "pause:" }),
			environment());

	ASSERT_TRUE(process.wait_for("answer 42\npaused\n"));
	EXPECT_EQ(count_named(registrations(process.pid()), "libnoheader.so"), 1u);
}

TEST_F(Audited, SeveralExecutableSegments)
{
	Process process(target({ kOpen + library("libsplit.so"), "call:answer", "pause:", "close:",
				 "pause:" }),
			environment());

	ASSERT_TRUE(process.wait_for("answer 42\npaused\n"));
	EXPECT_EQ(count_named(registrations(process.pid()), "libsplit.so"), 2u);
	process.say("\n");
	ASSERT_TRUE(process.wait_for("closed 0\npaused\n"));
	EXPECT_EQ(count_named(registrations(process.pid()), "libsplit.so"), 0u);
}

TEST_F(Audited, NoBuildId)
{
	Process process(target({ kOpen + library("libanonymous.so"), "call:answer", "pause:" }),
			environment());

	ASSERT_TRUE(process.wait_for("answer 42\npaused\n"));
	EXPECT_EQ(count_named(registrations(process.pid()), "libanonymous.so"), 1u);
}

TEST_F(Audited, ProgramAtAFixedAddress)
{
	Process process({ built("FIXED_TARGET"), "pause:" }, environment());

	ASSERT_TRUE(process.wait_for("paused\n"));
	EXPECT_EQ(unregistered(process.pid()), Strings());
}

TEST_F(Audited, ProgramStartedThroughTheLinker)
{
	Process process({ "/lib64/ld-linux-x86-64.so.2", kTarget, kOpen + library("libplain.so"),
			  "pause:" },
			environment());

	ASSERT_TRUE(process.wait_for("paused\n"));
	EXPECT_EQ(unregistered(process.pid()), Strings());
}

TEST_F(Audited, ThousandLibraries)
{
	TemporaryDirectory copies;
	const std::string prefix = copies / "l";

	for (int i = 0; i < 1000; i++)
		fs::copy(library("libplain.so"), prefix + std::to_string(i) + ".so");
	Process process(target({ std::string("each:1000:") + prefix, "pause:" }), environment());

	ASSERT_TRUE(process.wait_for("opened 1000\npaused\n"));
	EXPECT_EQ(unregistered(process.pid()), Strings());
	const size_t most = registrations(process.pid()).size();
	process.say("\n");
	ASSERT_TRUE(process.wait_for("closed all\npaused\n"));
	EXPECT_EQ(registrations(process.pid()).size(), most - 1000);
	EXPECT_EQ(unregistered(process.pid()), Strings());
}

TEST_F(Audited, LoadingOverAndOverLeavesNothing)
{
	Process process(target({ "pause:", std::string("repeat:2000:") + library("libneeds.so"), "pause:" }),
			environment());
	const auto mappings = [&] {
		std::ifstream maps(std::string("/proc/") + std::to_string(process.pid()) + "/maps");

		return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
	};

	ASSERT_TRUE(process.wait_for("paused\n"));
	const auto before = registrations(process.pid()).size();
	const auto mapped = mappings();
	process.say("\n");
	ASSERT_TRUE(process.wait_for("repeated\npaused\n"));
	EXPECT_EQ(registrations(process.pid()).size(), before);
	EXPECT_LE(mappings(), mapped + 16);
}

TEST_F(Audited, NothingIsLeftInSharedMemory)
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

TEST_F(Audited, ForkedChildHasItsOwn)
{
	const Outcome outcome =
		run(target({ kOpen + library("libwitness.so"), "fork:", "call:now",
			     "call:complete", kOpen + library("libneeds.so"), "close:", "close:" }),
		    environment());

	EXPECT_EQ(outcome.out, "ok\nnow 0\ncomplete 1\nok\nclosed 0\nclosed 0\n");
	EXPECT_TRUE(outcome.exited(0));
}

TEST_F(Audited, NotNoticed)
{
	expect_unnoticed(target({ kOpen + library("libneeds.so"), "call:twice", "where:", "close:",
				  "open:libnowhere.so", kOpen + library("libbroken.so"),
				  "open:/etc/passwd", "self:", "noload:libm.so.6", "fds:",
				  "env:LD_AUDIT", "shell:exit 3", "exit:7" }));
	expect_unnoticed(target({ "abort:" }));
	expect_unnoticed({ "/bin/sh", "-c", "kill -TERM $$" });
	expect_unnoticed({ "/bin/sh", "-c", "echo out; echo err >&2; exit 5" });
}

TEST_F(Audited, NoDescriptorIsLeftOpen)
{
	TemporaryDirectory empty;	// with a cold cache, too

	expect_unnoticed(target({ "fds:", kOpen + library("libneeds.so"), "fds:" }),
			 { { "XDG_CACHE_HOME", empty.path() } });
}

TEST_F(Audited, ChildrenRunWithout)
{
	const Outcome outcome = run(target({ "env:LD_AUDIT", "shell:echo child=$LD_AUDIT" }),
				    environment());

	EXPECT_EQ(outcome.out, "LD_AUDIT=(none)\nchild=\nstatus 0\n");
}

TEST_F(Audited, ChildrenRunWithIfAsked)
{
	const Outcome outcome = run(target({ "shell:echo child=$LD_AUDIT" }),
				    environment({ { "SFRAME_INHERIT", "1" } }));

	EXPECT_EQ(outcome.out, std::string("child=") + kAuditor + "\nstatus 0\n");
}

TEST_F(Audited, OtherAuditorsStay)
{
	const std::string other = library("libauditor.so");

	for (const std::string &list : { kAuditor + ":" + other, other + ":" + kAuditor,
					 kAuditor + ":" + other + ":" + kAuditor }) {
		const Outcome outcome =
			run(target({ "env:LD_AUDIT", kOpen + library("libplain.so"), "call:answer" }),
			    environment({ { "LD_AUDIT", list } }));
		EXPECT_EQ(outcome.out, std::string("LD_AUDIT=") + other + "\nok\nanswer 42\n") << list;
		EXPECT_EQ(outcome.err, "");
	}
}

// Two copies of the auditor in one process are one registry.
TEST_F(Audited, TwiceIsOnce)
{
	Process process(target({ kOpen + library("libplain.so"), "pause:", "close:", "pause:" }),
			environment({ { "LD_AUDIT", kAuditor + ":" + kAuditor } }));

	ASSERT_TRUE(process.wait_for("paused\n"));
	EXPECT_EQ(count_named(registrations(process.pid()), "libplain.so"), 1u);
	process.say("\n");
	ASSERT_TRUE(process.wait_for("closed 0\npaused\n"));
	EXPECT_EQ(count_named(registrations(process.pid()), "libplain.so"), 0u);
	EXPECT_TRUE(process.finish().exited(0));
}

// An auditor that the program itself asks for.
TEST_F(Audited, ByDtAudit)
{
	Process process({ built("ASKING_TARGET"), "env:LD_AUDIT", "pause:" },
			environment({ { "LD_AUDIT", "" } }));

	ASSERT_TRUE(process.wait_for("LD_AUDIT=(none)\npaused\n"));
	EXPECT_EQ(unregistered(process.pid()), Strings());
}

TEST_F(Audited, SetuidProgramsRunWithout)
{
	TemporaryDirectory place;
	const std::string copy = place / "setuid";

	chmod(place.path().c_str(), 0755);
	fs::copy(kTarget, copy);
	if (chown(copy.c_str(), 65534, 65534) < 0 || chmod(copy.c_str(), 04755) < 0)
		GTEST_SKIP() << "only root can make a program that is setuid to somebody else";
	Process process({ copy, "env:LD_AUDIT", "pause:" }, environment());
	ASSERT_TRUE(process.wait_for("LD_AUDIT=(none)\npaused\n"));
	sframe_peer *peer;
	EXPECT_EQ(sframe_peer_open(&peer, process.pid()), -ENOENT);
	process.say("\n");
	const Outcome outcome = process.finish();
	EXPECT_TRUE(outcome.exited(0));
	EXPECT_EQ(outcome.err, "");
}

// The linker does not load us into secure processes; if it did, we would ask
// to be left out.
TEST_F(Audited, InertUnderAtSecure)
{
	void *handle = dlopen(kAuditor.c_str(), RTLD_NOW);
	ASSERT_NE(handle, nullptr) << dlerror();
	auto la_version = reinterpret_cast<unsigned int (*)(unsigned int)>(dlsym(handle, "la_version"));
	ASSERT_NE(la_version, nullptr);
	auto *words = static_cast<uint64_t *>(__libc_stack_end);
	char **envp = reinterpret_cast<char **>(words + words[0] + 2);
	while (*envp)
		envp++;
	auto *auxv = reinterpret_cast<Elf64_auxv_t *>(envp + 1);
	while (auxv->a_type != AT_SECURE && auxv->a_type != AT_NULL)
		auxv++;
	ASSERT_EQ(auxv->a_type, uint64_t{AT_SECURE});

	auxv->a_un.a_val = 1;
	EXPECT_EQ(la_version(LAV_CURRENT), 0u);
	auxv->a_un.a_val = 0;
	EXPECT_EQ(la_version(1), 1u);
	EXPECT_EQ(la_version(LAV_CURRENT), unsigned{LAV_CURRENT});
	EXPECT_EQ(la_version(1000), unsigned{LAV_CURRENT});
	dlclose(handle);
}

TEST_F(Audited, DebugSaysWhatIsRegistered)
{
	const Outcome outcome = run(target({ kOpen + library("libplain.so") }),
				    environment({ { "SFRAME_DEBUG", "1" } }));

	EXPECT_NE(outcome.err.find(std::string("registered ") + library("libplain.so")), std::string::npos)
		<< outcome.err;
}

TEST_F(Audited, CacheUnusable)
{
	expect_unnoticed(target({ kOpen + library("libplain.so"), "call:answer" }),
			 { { "XDG_CACHE_HOME", "/proc" } });
	expect_unnoticed(target({ kOpen + library("libplain.so"), "call:answer" }),
			 { { "XDG_CACHE_HOME", "" }, { "HOME", "" } });
}

TEST_F(Audited, SharedMemoryUnusable)
{
	expect_unnoticed(target({ kOpen + library("libplain.so"), "call:answer" }),
			 { { "SFRAME_SHM_DIR", "/nonexistent" } });
}

// In a mount namespace of the child's own.
void without_shared_memory()
{
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0 ||
	    mount("tmpfs", "/dev/shm", "tmpfs", MS_RDONLY, "size=4k") < 0)
		_exit(99);
}

void with_full_shared_memory()
{
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0 ||
	    mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=4k") < 0)
		_exit(99);
	const int fd = open("/dev/shm/full", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	char page[4096] = {};
	if (write(fd, page, sizeof(page)) < 0)
		_exit(98);
	close(fd);
}

TEST_F(Audited, SharedMemoryReadOnlyOrFull)
{
	for (auto *prepare : { without_shared_memory, with_full_shared_memory }) {
		const Outcome outcome =
			run(target({ kOpen + library("libneeds.so"), "call:twice", "fork:",
				     "call:twice", "exit:6" }),
			    environment(), prepare);

		if (outcome.exited(99))
			GTEST_SKIP() << "no mount namespace to be had";
		EXPECT_EQ(outcome.out, "ok\ntwice 84\ntwice 84\n");
		EXPECT_EQ(outcome.err, "");
		EXPECT_TRUE(outcome.exited(6));
	}
}

TEST_F(Audited, NoProcFilesystem)
{
	const Outcome outcome = run(
		target({ kOpen + library("libhigh.so"), "call:answer",
			 kOpen + library("libnoheader.so"), "call:answer" }),
		environment(), [] {
			if (unshare(CLONE_NEWNS) < 0 ||
			    mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0 ||
			    mount("tmpfs", "/proc", "tmpfs", 0, "size=4k") < 0)
				_exit(99);
		});

	if (outcome.exited(99))
		GTEST_SKIP() << "no mount namespace to be had";
	EXPECT_EQ(outcome.out, "ok\nanswer 42\nok\nanswer 42\n");
	EXPECT_EQ(outcome.err, "");
	EXPECT_TRUE(outcome.exited(0));
}

std::string readelf(const char *option, const std::string &file)
{
	return run({ "readelf", option, file }).out;
}

// A second C++ runtime or libc in the auditor's namespace would have its own
// idea of locale, threads and TLS.
TEST(AuditorFile, NeedsNothingButTheLinker)
{
	const std::string dynamic = readelf("-dW", kAuditor);
	size_t needed = 0;

	for (size_t at = 0; (at = dynamic.find("(NEEDED)", at)) != std::string::npos; at++) {
		needed++;
		EXPECT_EQ(dynamic.find("[ld-linux-x86-64.so.2]", at),
			  dynamic.find('[', at));
	}
	EXPECT_LE(needed, 1u);
	EXPECT_EQ(dynamic.find("INIT_ARRAY"), std::string::npos) << "runs code when it is loaded";
}

TEST(AuditorFile, HasNoThreadLocalStorage)
{
	EXPECT_EQ(readelf("-lW", kAuditor).find("TLS"), std::string::npos);
}

TEST(AuditorFile, ShowsOnlyItsCallbacks)
{
	const std::string symbols = run({ "nm", "-D", "--defined-only", kAuditor }).out;
	std::istringstream in(symbols);

	for (std::string address, type, name; in >> address >> type >> name;)
		EXPECT_EQ(name.rfind("la_", 0), 0u) << name;
	EXPECT_EQ(symbols.find("la_symbind"), std::string::npos) << "slows every call";
	EXPECT_EQ(symbols.find("la_pltenter"), std::string::npos) << "slows every call";
}

} // namespace
