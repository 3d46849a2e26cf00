// SPDX-License-Identifier: MIT
//
// Several copies of the library in one process, as when a program that uses it
// runs under the auditor: one registry, whoever comes first. This program
// contains one copy; the shared library is loaded beside it, also into another
// link-map namespace.
#include <gtest/gtest.h>

#include <barrier>
#include <dlfcn.h>
#include <sys/wait.h>
#include <thread>

#include "registry.h"
#include "section.h"

namespace {


struct Copy {
	explicit Copy(void *handle)
		: add((decltype(add))dlsym(handle, "sframe_register")),
		  remove((decltype(remove))dlsym(handle, "sframe_unregister")),
		  find((decltype(find))dlsym(handle, "sframe_find")),
		  stats((decltype(stats))dlsym(handle, "sframe_get_stats"))
	{
	}
	decltype(&sframe_register) add;
	decltype(&sframe_unregister) remove;
	decltype(&sframe_find) find;
	decltype(&sframe_get_stats) stats;
};

struct CopiesTest : testing::TestWithParam<bool> {
	std::vector<uint8_t> section = make_section(1), other = make_section(1);
	Text text{ 1 << 16 };
	void *handle = GetParam() ? dlmopen(LM_ID_NEWLM, SFRAME_SHARED_LIBRARY, RTLD_NOW) :
				    dlopen(SFRAME_SHARED_LIBRARY, RTLD_NOW | RTLD_LOCAL);

	void SetUp() override
	{
#if defined(UNDER_ADDRESS_SANITIZER) || defined(UNDER_THREAD_SANITIZER)
		if (GetParam())
			GTEST_SKIP() << "a sanitizer's runtime lives in one namespace only";
#endif
	}

	sframe_setup at(const std::vector<uint8_t> &what, uint64_t offset)
	{
		return setup_of(what, text.at + offset, 0x100);
	}

	template <typename Body> static int in_child(Body body)
	{
		int status;

		fflush(stdout);
		const pid_t pid = fork();
		if (pid == 0) {
			const int result = body();
			sframe::registry_exit();
			_exit(result);
		}
		waitpid(pid, &status, 0);
		return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
	}
};

TEST_P(CopiesTest, WhatOneRegistersTheOtherFinds)
{
	ASSERT_NE(handle, nullptr) << dlerror();
	EXPECT_EQ(in_child([&] {
		Copy copy(handle);
		auto range = sized<sframe_range>();
		auto here = sized<sframe_stats>(), there = sized<sframe_stats>();
		const sframe_setup first = at(section, 0), second = at(other, 0x100);
		// The one looks before there is anything: later it must look again.
		if (copy.find(text.at, &range) != -ENOENT)
			return 1;
		if (sframe::registry_add(first, {}) || copy.add(&second, sizeof(second)))
			return 2;
		int err = -ENOENT;
		for (int i = 0; i < 2048 && err; i++)
			err = copy.find(text.at, &range);
		if (err || sframe_find(text.at + 0x100, &range))
			return 3;
		if (copy.add(&first, sizeof(first)) != -EEXIST)
			return 4;
		sframe_get_stats(&here);
		copy.stats(&there);
		if (memcmp(&here, &there, sizeof(here)) || here.live != 2)
			return 5;
		// And what one registered, the other may drop.
		if (copy.remove(&first, sizeof(first)) || sframe::registry_remove(second))
			return 6;
		return copy.find(text.at, &range) == -ENOENT ? 0 : 7;
	}), 0);
}

// Both come to be at the same moment: they must agree whose registry it is.
TEST_P(CopiesTest, BothFirstAtOnce)
{
#ifdef UNDER_THREAD_SANITIZER
	GTEST_SKIP() << "one copy finds the other's registry through the kernel, which TSan does not see";
#endif
	ASSERT_NE(handle, nullptr) << dlerror();
	for (int round = 0; round < 100; round++)
		ASSERT_EQ(in_child([&] {
			Copy copy(handle);
			const sframe_setup first = at(section, 0), second = at(other, 0x100);
			std::barrier together(2);
			int mine = -1, theirs = -1;
			std::thread thread([&] {
				together.arrive_and_wait();
				theirs = copy.add(&second, sizeof(second));
			});
			together.arrive_and_wait();
			mine = sframe::registry_add(first, {});
			thread.join();
			auto range = sized<sframe_range>();
			if (mine || theirs) {
				fprintf(stderr, "%d and %d\n", mine, theirs);
				return 1;
			}
			if (copy.find(text.at, &range) || copy.find(text.at + 0x100, &range))
				return 2;
			return sframe_find(text.at, &range) || sframe_find(text.at + 0x100, &range) ? 3 : 0;
		}), 0) << round;
}

// dlclose() does not take the registry along.
TEST_P(CopiesTest, ClosingOneLeavesWhatItRegistered)
{
	ASSERT_NE(handle, nullptr) << dlerror();
	EXPECT_EQ(in_child([&] {
		Copy copy(handle);
		const sframe_setup first = at(section, 0);
		auto range = sized<sframe_range>();
		if (copy.add(&first, sizeof(first)))
			return 1;
		dlclose(handle);
		int err = -ENOENT;
		for (int i = 0; i < 2048 && err; i++)
			err = sframe_find(text.at, &range);
		return err ? 2 : sframe::registry_remove(first) ? 3 : 0;
	}), 0);
}

INSTANTIATE_TEST_SUITE_P(Namespace, CopiesTest, testing::Values(false, true),
			 [](const auto &info) { return info.param ? "another" : "same"; });

} // namespace
