// SPDX-License-Identifier: MIT
//
// The choice of a backend, and the kernel's system calls against a kernel that
// has them: a seccomp filter traps two numbers, the SIGSYS handler answers as
// the design says the calls do. Each test is a process of its own.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "config.h"
#include "registry.h"
#include "section.h"

namespace {

constexpr long register_nr = 6001, unregister_nr = 6002;

// The made-up kernel. Written by its handler only.
struct Kernel {
	sframe_setup range[64];
	int count;
	uint64_t features = SFRAME_GROWABLE | SFRAME_REPLACE;
	size_t known_size = SFRAME_SETUP_SIZE_VER1;
	int calls;
} kernel;

long kernel_register(const sframe_setup *user, size_t size)
{
	sframe_setup setup = {};

	if (size < SFRAME_SETUP_SIZE_VER0)
		return -EINVAL;
	if (size > kernel.known_size)
		return -E2BIG;
	memcpy(&setup, user, size);
	if (setup.flags & ~kernel.features)
		return -EINVAL;
	for (int i = 0; i < kernel.count; i++) {
		sframe_setup &r = kernel.range[i];
		if (setup.text_start + setup.text_size <= r.text_start ||
		    r.text_start + r.text_size <= setup.text_start)
			continue;
		if (!(setup.flags & SFRAME_REPLACE))
			return -EEXIST;
		r = setup;
		return 0;
	}
	if (setup.flags & SFRAME_REPLACE)
		return -ENOENT;
	kernel.range[kernel.count++] = setup;
	return 0;
}

long kernel_unregister(const sframe_setup *setup, size_t size)
{
	long ret = -ENOENT;

	if (size < SFRAME_SETUP_SIZE_VER0)
		return -EINVAL;
	for (int i = kernel.count; i-- > 0;)
		if (kernel.range[i].sframe_start == setup->sframe_start &&
		    (!setup->text_size || kernel.range[i].text_start == setup->text_start)) {
			kernel.range[i] = kernel.range[--kernel.count];
			ret = 0;
		}
	return ret;
}

void on_trap(int, siginfo_t *info, void *context)
{
	greg_t *regs = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;
	const auto *setup = (const sframe_setup *)regs[REG_RDI];
	const auto size = (size_t)regs[REG_RSI];

	kernel.calls++;
	regs[REG_RAX] = info->si_syscall == register_nr ? kernel_register(setup, size) :
							  kernel_unregister(setup, size);
}

bool install_kernel()
{
	sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, register_nr, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, unregister_nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	sock_fprog program = { sizeof(code) / sizeof(code[0]), code };
	struct sigaction action = {};

	action.sa_sigaction = on_trap;
	action.sa_flags = SA_SIGINFO;
	sigaction(SIGSYS, &action, nullptr);
	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

struct BackendTest : testing::Test {
	std::filesystem::path root;

	void SetUp() override
	{
		char name[] = "/tmp/sframe-sysfs-XXXXXX";
		root = mkdtemp(name);
		setenv("SFRAME_SYSFS_ROOT", root.c_str(), 1);
		unsetenv("SFRAME_BACKEND");
	}
	void TearDown() override
	{
		std::filesystem::remove_all(root);
		unsetenv("SFRAME_SYSFS_ROOT");
	}

	void publish(const std::string &reg, const std::string &unreg, const std::string &features)
	{
		std::ofstream(root / "register_nr") << reg;
		std::ofstream(root / "unregister_nr") << unreg;
		std::ofstream(root / "features") << features;
	}
	void publish_kernel() { publish("6001\n", "6002\n", "0x3\n"); }

	// 0: all went well; 77: seccomp is not to be had; else a line number.
	template <typename Body> int in_child(Body body, bool with_kernel = false)
	{
		int status = 0;

		fflush(stdout);
		const pid_t pid = fork();
		if (pid == 0) {
			sframe::config_source([](const char *name) -> const char * {
				return getenv(name);
			}, false);
			const int result = with_kernel && !install_kernel() ? 77 : body();
			sframe::registry_exit();
			_exit(result);
		}
		waitpid(pid, &status, 0);
		return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
	}
};

#define NEED(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%d: %s\n", __LINE__, #condition); \
			return 1; \
		} \
	} while (0)

#define EXPECT_CHILD_OK(...) \
	do { \
		const int status = in_child(__VA_ARGS__); \
		if (status == 77) \
			GTEST_SKIP() << "seccomp filters are not allowed here"; \
		EXPECT_EQ(status, 0); \
	} while (0)

int add(const std::vector<uint8_t> &section, uint64_t at, uint64_t flags = 0, uint64_t base = 0)
{
	sframe::Metadata meta;

	meta.executable = true;
	return sframe::registry_add(setup_of(section, at, 0x100, flags, base), meta);
}

int remove(const std::vector<uint8_t> &section, uint64_t at)
{
	return sframe::registry_remove(setup_of(section, at, at ? 0x100 : 0));
}

bool found(uint64_t pc)
{
	sframe::Covering covering;

	return sframe::registry_lookup(pc, &covering) == 0;
}

TEST_F(BackendTest, AutoTakesShmWithoutAKernel)
{
	EXPECT_CHILD_OK([] {
		NEED(sframe_backend() == SFRAME_BACKEND_SHM);
		NEED(sframe_backend_features() ==
		     (SFRAME_GROWABLE | SFRAME_REPLACE | SFRAME_FUNC_BASE));
		return 0;
	});
}

// Numbers that are there, but nobody answers to them (ENOSYS), or somebody else.
TEST_F(BackendTest, NumbersMustProveThemselves)
{
	for (const char *number : { "6001\n", "39\n", "0\n", "-1\n", "999999\n", "rubbish\n", "" }) {
		publish(number, number, "7\n");
		EXPECT_CHILD_OK([] {
			NEED(sframe_backend() == SFRAME_BACKEND_SHM);
			return 0;
		});
	}
}

TEST_F(BackendTest, KernelAskedForButAbsentIsEnosys)
{
	setenv("SFRAME_BACKEND", "kernel", 1);
	EXPECT_CHILD_OK([] {
		const std::vector<uint8_t> section = make_section(1);
		NEED(sframe_backend() == -ENOSYS);
		NEED(add(section, 0x1000) == -ENOSYS);
		NEED(remove(section, 0x1000) == -ENOSYS);
		NEED(sframe_backend_features() == 0);
		NEED(sframe_set_backend(SFRAME_BACKEND_SHM) == 0);
		NEED(add(section, 0x1000) == 0);
		return 0;
	});
}

TEST_F(BackendTest, SetBackend)
{
	EXPECT_CHILD_OK([] {
		const std::vector<uint8_t> section = make_section(1);
		NEED(sframe_set_backend(4) == -EINVAL);
		NEED(sframe_set_backend(-1) == -EINVAL);
		NEED(sframe_set_backend(SFRAME_BACKEND_KERNEL) == -ENOSYS);
		NEED(sframe_backend() == SFRAME_BACKEND_SHM);
		NEED(add(section, 0x1000) == 0);
		NEED(sframe_set_backend(SFRAME_BACKEND_NONE) == -EBUSY);
		NEED(remove(section, 0x1000) == 0);
		NEED(sframe_set_backend(SFRAME_BACKEND_NONE) == 0);
		return 0;
	});
}

TEST_F(BackendTest, NoneChecksAndForgets)
{
	setenv("SFRAME_BACKEND", "none", 1);
	EXPECT_CHILD_OK([] {
		const std::vector<uint8_t> section = make_section(1), bad = make_section(1, 1);
		NEED(sframe_backend() == SFRAME_BACKEND_NONE);
		NEED(add(section, 0x1000) == 0);
		NEED(add(section, 0x1000) == 0);
		NEED(add(bad, 0x1000) == -EINVAL);
		NEED(!found(0x1000));
		NEED(remove(section, 0x1000) == 0);
		return 0;
	});
}

TEST_F(BackendTest, KernelGetsWhatTheIndexGets)
{
	publish_kernel();
	EXPECT_CHILD_OK([] {
		const std::vector<uint8_t> section = make_section(1), other = make_section(2);
		NEED(sframe_backend() == SFRAME_BACKEND_KERNEL);
		NEED(sframe_backend_features() == (SFRAME_GROWABLE | SFRAME_REPLACE));
		NEED(add(section, 0x1000) == 0 && add(section, 0x1100) == 0);
		NEED(kernel.count == 2 && found(0x1000) && found(0x11ff));
		NEED(add(other, 0x1080) == -EEXIST);
		NEED(add(other, 0x1000, SFRAME_REPLACE) == 0);
		NEED(kernel.range[0].sframe_start == (uint64_t)other.data());
		NEED(add(other, 0x5000, SFRAME_REPLACE) == -ENOENT && !found(0x5000));
		NEED(remove(section, 0) == 0 && kernel.count == 1 && !found(0x1100) && found(0x1000));
		NEED(remove(section, 0) == -ENOENT);
		NEED(remove(other, 0x1000) == 0 && kernel.count == 0 && !found(0x1000));
		return 0;
	}, true);
}

TEST_F(BackendTest, AFeatureTheKernelLacksIsEinvalAndNotInTheIndex)
{
	publish_kernel();
	EXPECT_CHILD_OK([] {
		const std::vector<uint8_t> section = make_section(1);
		NEED(!(sframe_backend_features() & SFRAME_FUNC_BASE));
		NEED(add(section, 0x1000, SFRAME_FUNC_BASE, 0x1000) == -EINVAL);
		NEED(!found(0x1000) && kernel.count == 0);
		return 0;
	}, true);
}

// A kernel that knows version 0 only is given no more than that.
TEST_F(BackendTest, AVersion0KernelGetsVersion0)
{
	publish_kernel();
	EXPECT_CHILD_OK([] {
		const std::vector<uint8_t> section = make_section(1);
		kernel.known_size = SFRAME_SETUP_SIZE_VER0;
		NEED(add(section, 0x1000) == 0 && found(0x1000));
		NEED(add(section, 0x2000, SFRAME_GROWABLE) == -E2BIG && !found(0x2000));
		NEED(remove(section, 0x1000) == 0);
		return 0;
	}, true);
}

// The kernel sees unmappings; the index learns of them when it is registered over.
TEST_F(BackendTest, WhatTheKernelDroppedGivesWay)
{
	publish_kernel();
	EXPECT_CHILD_OK([] {
		const std::vector<uint8_t> section = make_section(1), other = make_section(2);
		for (uint64_t at = 0x1000; at < 0x1400; at += 0x100)
			NEED(add(section, at) == 0);
		kernel.count = 0;		// munmap()
		NEED(add(other, 0x1180) == 0);	// over two of the four
		NEED(found(0x1000) && found(0x1300) && !found(0x1100) && !found(0x12ff));
		sframe::Covering covering;
		NEED(sframe::registry_lookup(0x1200, &covering) == 0 &&
		     covering.section.addr == (uint64_t)other.data());
		NEED(remove(section, 0x1000) == 0);	// the kernel says ENOENT, the index knew it
		return 0;
	}, true);
}

TEST_F(BackendTest, EnvironmentCanKeepTheKernelOut)
{
	publish_kernel();
	setenv("SFRAME_BACKEND", "shm", 1);
	EXPECT_CHILD_OK([] {
		const std::vector<uint8_t> section = make_section(1);
		NEED(sframe_backend() == SFRAME_BACKEND_SHM);
		NEED(add(section, 0x1000) == 0 && kernel.calls == 0);
		return 0;
	}, true);
}

} // namespace
