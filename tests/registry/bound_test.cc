// SPDX-License-Identifier: MIT
//
// The registry is bounded: past the bound -ENOSPC, and the rest keeps working.
// Each test is a process of its own that has not reserved anything yet.
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/wait.h>

#include "registry.h"
#include "section.h"

namespace {

const std::vector<uint8_t> section = make_section(1);

int add(uint64_t n)
{
	sframe::Metadata meta;

	meta.executable = true;
	return sframe::registry_add(setup_of(section, 0x10000 + n * 16, 16), meta);
}

// Fills the registry; 0 if it behaved, else which step did not.
int fill(uint64_t at_least, uint64_t at_most)
{
	sframe::Covering covering;
	uint64_t n = 0;
	int err = 0;

	while (n <= at_most && (err = add(n)) == 0)
		n++;
	if (err != -ENOSPC || n < at_least)
		return 1;
	if (sframe::registry_lookup(0x10000, &covering) ||
	    sframe::registry_lookup(0x10000 + (n - 1) * 16, &covering) ||
	    sframe::registry_lookup(0x10000 + n * 16, &covering) != -ENOENT)
		return 2;
	// Replacing needs no room; what is freed can be used.
	sframe::Metadata meta;
	meta.executable = true;
	if (sframe::registry_add(setup_of(section, 0x10000, 16, SFRAME_REPLACE), meta))
		return 3;
	if (sframe::registry_remove(setup_of(section, 0x10000, 16)) || add(0) || add(n) != -ENOSPC)
		return 4;
	return 0;
}

int in_child(int (*body)())
{
	int status = 0;

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

TEST(BoundTest, AMillionRanges)
{
	EXPECT_EQ(in_child([] { return fill(1'000'000, 1'000'000); }), 0);
}

TEST(BoundTest, FewerUnderALimitOfAddressSpace)
{
#if defined(UNDER_ADDRESS_SANITIZER) || defined(UNDER_THREAD_SANITIZER)
	GTEST_SKIP() << "a sanitizer's runtime needs terabytes of address space";
#endif
	EXPECT_EQ(in_child([] {
		const rlimit limit = { 64 << 20, 64 << 20 };
		setrlimit(RLIMIT_AS, &limit);
		return fill(1000, 300'000);
	}), 0);
}

// mlockall() for the future makes every mapping resident: the reservation must
// neither eat memory nor fail for good.
TEST(BoundTest, UnderMlockall)
{
	EXPECT_EQ(in_child([] {
		if (mlockall(MCL_CURRENT | MCL_FUTURE))
			return 0;
		for (uint64_t n = 0; n < 1000; n++)
			if (add(n))
				return 1;
		rusage usage;
		getrusage(RUSAGE_SELF, &usage);
		return usage.ru_maxrss > 100'000 ? 2 : 0;
	}), 0);
}

} // namespace
