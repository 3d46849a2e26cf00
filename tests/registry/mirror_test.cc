// SPDX-License-Identifier: MIT
//
// What other processes see: whole ranges whatever the writer is doing, also if
// it is killed at any instruction; and what happens where there is no shared
// memory to be had. Writers are child processes with a directory of their own.
#include <gtest/gtest.h>

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "config.h"
#include "export.h"
#include "process.h"
#include "registry.h"
#include "registry_state.h"
#include "section.h"

namespace {

constexpr uint64_t base = 0x400000, stride = 0x1000;

// Every field of range i follows from i: half an entry shows.
int add(const std::vector<uint8_t> &section, uint64_t i, uint64_t flags = 0)
{
	const std::string path = "/lib/" + std::string(i % 50, 'x') + std::to_string(i);
	unsigned char id[20];
	sframe::Metadata meta;

	memset(id, (int)(i & 0xff), sizeof(id));
	meta.executable = true;
	meta.load_bias = i * 7;
	meta.path = path.c_str();
	meta.build_id = id;
	meta.build_id_size = 20;
	meta.source = (sframe_source)(i % 3 + 1);
	return sframe::registry_add(setup_of(section, base + i * stride, 0x10 + i % 0x800,
					     flags | SFRAME_FUNC_BASE, i * 3), meta);
}

int remove(const std::vector<uint8_t> &section, uint64_t i)
{
	return sframe::registry_remove(setup_of(section, base + i * stride, 0x10 + i % 0x800));
}

bool whole(const sframe_range &range, const char *path)
{
	const uint64_t i = (range.text_start - base) / stride;

	if (range.text_start != base + i * stride || range.text_end != range.text_start + 0x10 + i % 0x800 ||
	    range.load_bias != i * 7 || range.func_base != i * 3 || range.build_id_size != 20 ||
	    range.source != i % 3 + 1 || range.version != 3 || range.flags != SFRAME_FUNC_BASE)
		return false;
	for (const unsigned char byte : range.build_id)
		if (byte != (i & 0xff))
			return false;
	return path == "/lib/" + std::string(i % 50, 'x') + std::to_string(i);
}

struct View {
	std::vector<uint64_t> seen;	// positions, ascending
	bool all_whole = true;
};

int look(sframe_peer *peer, View *view)
{
	*view = {};
	return sframe_peer_each(peer, [](const sframe_range *range, const char *path, void *arg) {
		auto *v = static_cast<View *>(arg);
		v->seen.push_back((range->text_start - base) / stride);
		v->all_whole &= whole(*range, path);
		return 0;
	}, view);
}

struct MirrorTest : testing::Test {
	std::filesystem::path directory;
	std::vector<uint8_t> section = make_section(1);

	void SetUp() override
	{
		char name[] = "/dev/shm/sframe-test-XXXXXX";
		ASSERT_TRUE(mkdtemp(name)) << "no /dev/shm";
		use(name);
	}
	void TearDown() override
	{
		unsetenv("SFRAME_SHM_DIR");
		std::filesystem::remove_all(directory);
	}
	void use(const std::filesystem::path &path)
	{
		directory = path;
		setenv("SFRAME_SHM_DIR", path.c_str(), 1);
	}
	size_t files() const
	{
		return (size_t)std::distance(std::filesystem::directory_iterator(directory), {});
	}

	// A writer: runs @body and, if that returns 0, stays until it is killed.
	template <typename Body> pid_t writer(Body body)
	{
		int ready[2];
		char byte = 0;

		EXPECT_EQ(pipe2(ready, O_CLOEXEC), 0);
		fflush(stdout);
		const pid_t pid = fork();
		if (pid == 0) {
			sframe::config_source([](const char *name) -> const char * {
				return getenv(name);
			}, false);
			const int result = body([&] { (void)!write(ready[1], "x", 1); });
			if (result)
				_exit(result);
			for (;;)
				pause();
		}
		close(ready[1]);
		EXPECT_EQ(read(ready[0], &byte, 1), 1);
		close(ready[0]);
		return pid;
	}

	static int end(pid_t pid)
	{
		int status;
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		return status;
	}

	template <typename Body> int in_child(Body body)
	{
		int status = 0;

		fflush(stdout);
		const pid_t pid = fork();
		if (pid == 0) {
			sframe::config_source([](const char *name) -> const char * {
				return getenv(name);
			}, false);
			_exit(body());
		}
		waitpid(pid, &status, 0);
		return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
	}
};

TEST_F(MirrorTest, APeerSeesEveryRange)
{
	const pid_t pid = writer([&](auto ready) {
		for (uint64_t i = 0; i < 3000; i++)
			if (add(section, i) || (i % 3 == 0 && remove(section, i)))
				return 1;
		ready();
		return 0;
	});
	sframe_peer *peer;
	View view;
	ASSERT_EQ(sframe_peer_open(&peer, pid), 0);
	EXPECT_EQ(look(peer, &view), 2000);
	EXPECT_TRUE(view.all_whole);
	auto stats = sized<sframe_stats>();
	int backend;
	ASSERT_EQ(sframe_peer_info(peer, &backend, &stats), 0);
	EXPECT_EQ(backend, SFRAME_BACKEND_SHM);
	EXPECT_EQ(stats.live, 2000u);
	EXPECT_EQ(stats.registered, 3000u);
	EXPECT_EQ(sframe_peer_origin(peer), pid);
	sframe_peer_close(peer);
	end(pid);
}

TEST_F(MirrorTest, NoSuchProcessAndNoRegistry)
{
	sframe_peer *peer;
	const pid_t pid = writer([&](auto ready) { ready(); return 0; });
	EXPECT_EQ(sframe_peer_open(&peer, pid), -ENOENT);
	end(pid);
	EXPECT_EQ(sframe_peer_open(&peer, pid), -ESRCH);
	EXPECT_EQ(sframe_peer_open(&peer, 0), -ESRCH);
	EXPECT_EQ(sframe_peer_open(&peer, -5), -ESRCH);
}

// Positions below 100 stay. Killed at random instants, hundreds of times.
TEST_F(MirrorTest, KilledWritersLeaveWholeRanges)
{
	for (int round = 0; round < 200 && !HasFailure(); round++) {
		const pid_t pid = writer([&](auto ready) {
			for (uint64_t i = 0; i < 100; i++)
				if (add(section, i))
					return 1;
			ready();
			for (uint64_t n = 0;; n++) {
				const uint64_t i = 100 + n % 77;
				if (add(section, i) || (n % 5 == 0 && add(section, i, SFRAME_REPLACE)) ||
				    remove(section, i))
					return 2;
			}
		});
		sframe_peer *peer;
		View view;
		ASSERT_EQ(sframe_peer_open(&peer, pid), 0);
		// While it runs, ...
		const int n = look(peer, &view);
		EXPECT_GE(n, 100);
		EXPECT_TRUE(view.all_whole);
		usleep(round * 37 % 1000);
		end(pid);
		// ... and as death left it.
		EXPECT_GE(look(peer, &view), 99);
		EXPECT_LE(view.seen.size(), 102u);
		EXPECT_TRUE(view.all_whole);
		for (uint64_t i = 0; i < 100; i++)
			EXPECT_EQ(view.seen[i], i);
		sframe_peer_close(peer);
	}
	EXPECT_GT(sframe::export_sweep(directory.c_str(), 1 << 20), 0);
	EXPECT_EQ(files(), 0u);
}

// The writer stopped at each instruction in turn of registering, replacing and
// unregistering: what a reader finds then is what it would find after a kill.
TEST_F(MirrorTest, StoppedAtEveryInstruction)
{
	const pid_t pid = writer([&](auto ready) {
		for (uint64_t i = 0; i < 40; i++)
			if (add(section, i * 2))
				return 1;
		if (ptrace(PTRACE_TRACEME, 0, 0, 0))
			return 2;
		ready();
		raise(SIGSTOP);
		if (add(section, 33) || add(section, 33, SFRAME_REPLACE) || remove(section, 33))
			return 3;
		raise(SIGSTOP);
		return 0;
	});
	int status, steps = 0, checks = 0;
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	if (!WIFSTOPPED(status))
		GTEST_SKIP() << "ptrace is not allowed here";
	sframe_peer *peer;
	ASSERT_EQ(sframe_peer_open(&peer, pid), 0);
	bool seen_without = false, seen_with = false;
	for (; steps < 2'000'000; steps++) {
		ASSERT_EQ(ptrace(PTRACE_SINGLESTEP, pid, 0, 0), 0);
		ASSERT_EQ(waitpid(pid, &status, 0), pid);
		ASSERT_TRUE(WIFSTOPPED(status));
		if (WSTOPSIG(status) == SIGSTOP)
			break;
		// Most steps are in the C library and in checks; each seventh at
		// a moving offset meets every store of the loop sooner or later.
		if (steps % 7)
			continue;
		View view;
		checks++;
		ASSERT_GE(look(peer, &view), 40) << "after step " << steps;
		ASSERT_TRUE(view.all_whole) << "after step " << steps;
		ASSERT_LE(view.seen.size(), 41u);
		(view.seen.size() == 41 ? seen_with : seen_without) = true;
	}
	EXPECT_TRUE(seen_with && seen_without);
	EXPECT_GT(checks, 500);
	sframe_peer_close(peer);
	end(pid);
}

// A forked child has what its parent had at that moment, and no file of its
// own, until it registers something.
TEST_F(MirrorTest, ForkedChild)
{
	int to_child[2], from_child[2];
	char byte;
	ASSERT_EQ(pipe(to_child) | pipe(from_child), 0);
	const pid_t parent = writer([&](auto ready) {
		for (uint64_t i = 0; i < 100; i++)
			if (add(section, i))
				return 1;
		const pid_t child = fork();
		if (child == 0) {
			(void)!write(from_child[1], "x", 1);
			while (read(to_child[0], &byte, 1) == 1) {
				if (remove(section, 7) || add(section, 200))
					_exit(1);
				(void)!write(from_child[1], "x", 1);
			}
			_exit(0);
		}
		sframe::process_start_time(0);
		(void)!write(from_child[1], &child, sizeof(child));
		if (remove(section, 50))
			return 2;
		ready();
		return 0;
	});
	pid_t child = 0;
	// "x" and the child's number, in either order.
	char bytes[5];
	for (size_t n = 0; n < sizeof(bytes);)
		n += (size_t)read(from_child[0], bytes + n, sizeof(bytes) - n);
	memcpy(&child, bytes + (bytes[0] == 'x' && bytes[4] != 'x' ? 1 : 0), sizeof(child));

	sframe_peer *peer;
	View view;
	int err = sframe_peer_open(&peer, child);
	if (err == -EACCES)
		GTEST_SKIP() << "other processes' memory may not be read here";
	ASSERT_EQ(err, 0);
	EXPECT_EQ(sframe_peer_origin(peer), parent);
	EXPECT_EQ(look(peer, &view), 100) << "the parent's later removal is not the child's";
	EXPECT_TRUE(view.all_whole);
	sframe_peer_close(peer);
	EXPECT_EQ(files(), 1u);

	ASSERT_EQ(write(to_child[1], "x", 1), 1);
	ASSERT_EQ(read(from_child[0], &byte, 1), 1);
	ASSERT_EQ(sframe_peer_open(&peer, child), 0);
	EXPECT_EQ(sframe_peer_origin(peer), child);
	EXPECT_EQ(look(peer, &view), 100);
	EXPECT_TRUE(view.all_whole);
	EXPECT_EQ(view.seen.back(), 200u);
	sframe_peer_close(peer);
	EXPECT_EQ(files(), 2u);

	ASSERT_EQ(sframe_peer_open(&peer, parent), 0);
	EXPECT_EQ(look(peer, &view), 99) << "the child's changes are not the parent's";
	EXPECT_EQ(view.seen.back(), 99u);
	sframe_peer_close(peer);
	close(to_child[1]);
	kill(child, SIGKILL);
	end(parent);
}

// The process is the same, its memory is not.
TEST_F(MirrorTest, NothingIsLeftAfterExec)
{
	const pid_t pid = writer([&](auto ready) {
		if (add(section, 1))
			return 1;
		const int fd = open("/dev/null", O_WRONLY);
		dup2(fd, 1);
		ready();
		execlp("sleep", "sleep", "1000", nullptr);
		return 2;
	});
	sframe_peer *peer;
	int err = 0;
	for (int i = 0; i < 1000 && err != -ENOENT; i++) {
		err = sframe_peer_open(&peer, pid);
		if (!err)
			sframe_peer_close(peer);
		usleep(1000);
	}
	EXPECT_EQ(err, -ENOENT);
	EXPECT_EQ(files(), 1u) << "it is there, but nobody's";
	end(pid);
}

TEST_F(MirrorTest, SweepTakesOnlyWhatTheDeadLeft)
{
	const auto body = [&](auto ready) {
		if (add(section, 1))
			return 1;
		ready();
		return 0;
	};
	const pid_t dead = writer(body);
	end(dead);
	std::ofstream(directory / "sframe.0.1.x") << "not a segment";
	std::ofstream(directory / "unrelated") << "x";
	const pid_t alive = writer(body);	// sweeps when it starts
	EXPECT_EQ(files(), 3u);
	EXPECT_EQ(sframe::export_sweep(directory.c_str(), 1 << 20), 0);
	end(alive);
	EXPECT_EQ(sframe::export_sweep(directory.c_str(), 1 << 20), 1);
	EXPECT_EQ(files(), 2u);
}

TEST_F(MirrorTest, OnlyItsOwnerMayReadTheFileWhateverTheUmask)
{
	const pid_t pid = writer([&](auto ready) {
		umask(0777);
		for (uint64_t i = 0; i < 500; i++)	// grows
			if (add(section, i))
				return 1;
		ready();
		return 0;
	});
	const auto file = *std::filesystem::directory_iterator(directory);
	EXPECT_EQ(file.status().permissions(),
		  std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
	sframe_peer *peer;
	View view;
	ASSERT_EQ(sframe_peer_open(&peer, pid), 0);
	EXPECT_EQ(look(peer, &view), 500);
	sframe_peer_close(peer);
	end(pid);
}

TEST_F(MirrorTest, NoDescriptorStaysOpen)
{
	EXPECT_EQ(in_child([&] {
		const auto count = [] {
			return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
		};
		const auto before = count();
		for (uint64_t i = 0; i < 500; i++)
			if (add(section, i))
				return 1;
		const auto after = count();
		sframe::registry_exit();
		return before == after ? 0 : 2;
	}), 0);
	EXPECT_EQ(files(), 0u) << "an orderly end leaves nothing";
}

// The registrations work, the failures are counted.
int without_shared_memory(const std::vector<uint8_t> &section, uint64_t ranges)
{
	sframe::Covering covering;
	auto stats = sized<sframe_stats>();

	for (uint64_t i = 0; i < ranges; i++)
		if (add(section, i) || sframe::registry_lookup(base + i * stride, &covering))
			return 1;
	for (uint64_t i = 0; i < ranges; i += 2)
		if (remove(section, i))
			return 2;
	sframe_get_stats(&stats);
	sframe::registry_exit();
	return stats.export_errors ? 0 : 3;
}

TEST_F(MirrorTest, WithoutTheDirectory)
{
	std::filesystem::remove_all(directory);
	EXPECT_EQ(in_child([&] { return without_shared_memory(section, 200); }), 0);
}

TEST_F(MirrorTest, UnderALimitOfFileSize)
{
	// No SIGXFSZ, which would end the program.
	for (const rlim_t limit : { 0, 4096, 16384, 40000 })
		EXPECT_EQ(in_child([&] {
			const rlimit both = { limit, limit };
			setrlimit(RLIMIT_FSIZE, &both);
			return without_shared_memory(section, 1000);
		}), 0) << limit;
}

TEST_F(MirrorTest, WithoutDescriptors)
{
	EXPECT_EQ(in_child([&] {
		const rlimit none = { 3, 3 };
		setrlimit(RLIMIT_NOFILE, &none);
		return without_shared_memory(section, 200);
	}), 0);
}

TEST_F(MirrorTest, OnAFullFileSystem)
{
	// No SIGBUS from pages that cannot be had.
	const int status = in_child([&] {
		if (unshare(CLONE_NEWNS) && unshare(CLONE_NEWUSER | CLONE_NEWNS))
			return 77;
		mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
		if (mount("tmpfs", directory.c_str(), "tmpfs", 0, "size=64k"))
			return 77;
		return without_shared_memory(section, 3000);
	});
	if (status == 77)
		GTEST_SKIP() << "no file system may be mounted here";
	EXPECT_EQ(status, 0);
}

TEST_F(MirrorTest, ASymbolicLinkInItsPlaceIsNotFollowed)
{
	const std::filesystem::path victim = directory / "victim";
	std::ofstream(victim) << "precious";
	EXPECT_EQ(in_child([&] {
		char name[64];
		snprintf(name, sizeof(name), "sframe.%u.%d.%lu", geteuid(), getpid(),
			 (unsigned long)sframe::process_start_time(0));
		std::filesystem::create_symlink(victim, directory / name);
		if (add(section, 1))
			return 1;
		sframe::registry_exit();
		return 0;
	}), 0);
	std::string text;
	std::ifstream(victim) >> text;
	EXPECT_EQ(text, "precious");
}

} // namespace
