// SPDX-License-Identifier: MIT
//
// Every way to make a process, while other threads register and unregister:
// the child has what was registered, can register, never hangs on a lock of
// its parent, and leaves the parent as it was.
#include <gtest/gtest.h>

#include <atomic>
#include <sched.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>

#include "registry.h"
#include "registry_state.h"
#include "section.h"

extern char **environ;

namespace {

constexpr uint64_t base = 0x200000;
constexpr int stay = 500;	// ranges that are there all the time

constexpr int children = 100;

struct ForkTest : testing::Test {
	std::vector<uint8_t> section = make_section(1), churned = make_section(1),
			     childs = make_section(1);
	std::atomic<bool> stop{ false };
	std::vector<std::thread> threads;

	static int add(const std::vector<uint8_t> &what, uint64_t at)
	{
		sframe::Metadata meta;
		meta.executable = true;
		meta.path = "/usr/lib/libfork.so";
		return sframe::registry_add(setup_of(what, at, 16), meta);
	}

	void SetUp() override
	{
#ifdef UNDER_THREAD_SANITIZER
		GTEST_SKIP() << "ThreadSanitizer's runtime hangs in a raw clone's child";
#endif
		for (int i = 0; i < stay; i++)
			ASSERT_EQ(add(section, base + i * 64), 0);
		for (uint64_t t = 0; t < 2; t++)
			threads.emplace_back([this, t] { churn(t); });
	}

	void TearDown() override
	{
		stop = true;
		for (auto &t : threads)
			t.join();
		for (auto *s : { &section, &churned })
			sframe::registry_remove({ (uint64_t)s->data(), 0, 0, 0, 0, 0 });
	}

	void churn(uint64_t t)
	{
		for (uint64_t n = 0; !stop; n++) {
			const uint64_t at = base + (n % 200 * 2 + t) * 64 + 32;
			if (add(churned, at) ||
			    (n % 3 && sframe::registry_remove(setup_of(churned, at, 16))))
				continue;
		}
	}

	// In the child; returns its exit status.
	int child_body()
	{
		sframe::Covering covering;

		for (int i = 0; i < stay; i++)
			if (sframe::registry_lookup(base + i * 64, &covering) ||
			    covering.text_start != base + (uint64_t)i * 64)
				return 1;
		if (sframe::registry_remove(setup_of(section, base, 16)) ||
		    sframe::registry_lookup(base, &covering) != -ENOENT)
			return 2;
		for (int i = 0; i < 300; i++)
			if (add(childs, 0x10000 + i * 64))
				return 3;
		if (sframe::registry_remove({ (uint64_t)section.data(), 0, 0, 0, 0, 0 }))
			return 4;
		for (int i = 0; i < 300; i++)
			if (sframe::registry_lookup(0x10000 + i * 64, &covering))
				return 5;
		// All that is left can be taken away: lists and trees agree.
		sframe::registry_remove({ (uint64_t)churned.data(), 0, 0, 0, 0, 0 });
		if (sframe::registry_remove({ (uint64_t)childs.data(), 0, 0, 0, 0, 0 }))
			return 6;
		const sframe::Control *c = sframe::registry_control(false);
		if (c->live || c->root || c->sections)
			return 7;
		if (c->node_arena.queued != c->node_arena.fresh ||
		    c->slot_arena.queued != c->slot_arena.fresh)
			return 8;
		sframe::registry_exit();
		return 0;
	}

	void expect_good_end(pid_t pid)
	{
		int status = -1;
		ASSERT_GT(pid, 0);
		ASSERT_EQ(waitpid(pid, &status, 0), pid);
		ASSERT_EQ(status, 0);
		sframe::Covering covering;
		ASSERT_EQ(sframe::registry_lookup(base, &covering), 0) << "the parent's is untouched";
		ASSERT_EQ(sframe::registry_lookup(0x10000, &covering), -ENOENT);
	}
};

// Without atfork handlers: another thread may be in the middle of an update.
TEST_F(ForkTest, RawCloneInTheMiddleOfUpdates)
{
	for (int i = 0; i < children && !HasFatalFailure(); i++) {
		const pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		if (pid == 0)
			_exit(child_body());
		expect_good_end(pid);
	}
}

TEST_F(ForkTest, ForkWithTheHandlersOfTheSharedLibrary)
{
	for (int i = 0; i < children && !HasFatalFailure(); i++) {
		uint64_t mask;
		ASSERT_TRUE(sframe::registry_fork_prepare(&mask));
		const pid_t pid = fork();
		if (pid == 0) {
			// Taken at rest: there is nothing to repair.
			const bool at_rest = !sframe::registry_control(false)->writing;
			sframe::registry_fork_child(mask);
			_exit(at_rest ? child_body() : 9);
		}
		sframe::registry_fork_parent(mask);
		expect_good_end(pid);
	}
}

TEST_F(ForkTest, GrandchildrenToo)
{
	for (int i = 0; i < 20 && !HasFatalFailure(); i++) {
		const pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		if (pid == 0) {
			const pid_t grandchild = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
			if (grandchild == 0)
				_exit(child_body());
			int status;
			waitpid(grandchild, &status, 0);
			_exit(status ? 10 : child_body());
		}
		expect_good_end(pid);
	}
}

// A vfork child shares the memory: what it registers is its parent's.
TEST_F(ForkTest, VforkSharesTheRegistry)
{
	for (int i = 0; i < 20; i++) {
		int status;
		const pid_t pid = vfork();
		if (pid == 0)
			_exit(add(childs, 0x10000) ? 1 : 0);
		waitpid(pid, &status, 0);
		ASSERT_EQ(status, 0);
		sframe::Covering covering;
		ASSERT_EQ(sframe::registry_lookup(0x10000, &covering), 0);
		ASSERT_EQ(sframe::registry_remove(setup_of(childs, 0x10000, 16)), 0);
	}
}

TEST_F(ForkTest, PosixSpawnWhileOthersRegister)
{
	for (int i = 0; i < 50; i++) {
		const char *argv[] = { "true", nullptr };
		pid_t pid;
		int status;
		ASSERT_EQ(posix_spawnp(&pid, "true", nullptr, nullptr, (char **)argv, environ), 0);
		waitpid(pid, &status, 0);
		ASSERT_EQ(status, 0);
	}
}

// A child forked inside a reader's bracket (by a signal handler) is not held up
// by readers that do not exist in it.
TEST_F(ForkTest, ReadersDoNotSurviveIntoTheChild)
{
	const uint32_t token = sframe::registry_read_enter();
	const pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		const sframe::Control *c = sframe::registry_control(false);
		for (auto &stripe : sframe::guard_of(c)->stripe)
			if (stripe.inside[0] || stripe.inside[1])
				_exit(1);
		sframe::registry_read_leave(token);
		for (auto &stripe : sframe::guard_of(c)->stripe)
			if (stripe.inside[0] || stripe.inside[1])
				_exit(2);
		_exit(0);
	}
	sframe::registry_read_leave(token);
	int status;
	waitpid(pid, &status, 0);
	EXPECT_EQ(status, 0);
}

} // namespace
