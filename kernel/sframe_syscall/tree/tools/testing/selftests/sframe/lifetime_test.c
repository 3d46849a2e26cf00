// SPDX-License-Identifier: GPL-2.0-only
/*
 * How long a registration lives: fork, exec, munmap and its relatives, the bound.
 */
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include "../kselftest_harness.h"
#include "section.h"

FIXTURE(lifetime) {
	unsigned char *text;
	struct section *section;
};

static int add(struct section *section, void *text, size_t size)
{
	struct sframe_setup setup = {
		.sframe_start = (unsigned long)section, .sframe_size = sizeof(*section),
		.text_start = (unsigned long)text, .text_size = size,
	};

	return sframe_register(&setup, sizeof(setup));
}

static int live(void *text, size_t size)
{
	return ranges_in((unsigned long)text, (unsigned long)text + size);
}

FIXTURE_SETUP(lifetime)
{
	if (sframe_register(NULL, 0) == -ENOSYS)
		SKIP(return, "kernel without sframe_register");
	self->text = text_map(16 * PAGE);
	self->section = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	section_make(self->section, (unsigned long)self->text, 16 * PAGE);
	ASSERT_EQ(0, add(self->section, self->text, 16 * PAGE));
}

FIXTURE_TEARDOWN(lifetime)
{
	munmap(self->text, 16 * PAGE);
	munmap(self->section, PAGE);
}

TEST_F(lifetime, fork_copies)
{
	struct sframe_setup setup = { .sframe_start = (unsigned long)self->section };
	int status;
	pid_t pid = fork();

	if (!pid) {
		int ok = live(self->text, 16 * PAGE) == 1 &&
			 !sframe_unregister(&setup, 32) && live(self->text, 16 * PAGE) == 0;

		_exit(!ok);
	}
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
	EXPECT_EQ(1, live(self->text, 16 * PAGE));
}

TEST_F(lifetime, vfork_shares)
{
	static struct sframe_setup setup;
	volatile int result = -1;
	int status;
	pid_t pid;

	setup = (struct sframe_setup) { .sframe_start = (unsigned long)self->section };
	pid = vfork();
	if (!pid) {
		result = sframe_unregister(&setup, 32);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, result);
	EXPECT_EQ(0, live(self->text, 16 * PAGE));
}

TEST_F(lifetime, munmap_drops)
{
	munmap(self->text + 4 * PAGE, PAGE);
	EXPECT_EQ(0, live(self->text, 16 * PAGE));
	EXPECT_EQ(0, add(self->section, self->text, 4 * PAGE));
}

TEST_F(lifetime, map_fixed_drops)
{
	mmap(self->text + 15 * PAGE, PAGE, PROT_READ,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	EXPECT_EQ(0, live(self->text, 16 * PAGE));
}

TEST_F(lifetime, mremap_drops)
{
	void *to = mmap(NULL, 16 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *moved = mremap(self->text, 16 * PAGE, 16 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to);

	ASSERT_EQ(to, moved);
	EXPECT_EQ(0, live(self->text, 16 * PAGE));
	EXPECT_EQ(0, live(moved, 16 * PAGE));
	munmap(moved, 16 * PAGE);
}

TEST_F(lifetime, neighbour_unmapping_keeps)
{
	void *next = mmap(self->text + 16 * PAGE, PAGE, PROT_READ,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(next, PAGE);
	madvise(self->text, 16 * PAGE, MADV_DONTNEED);
	mprotect(self->text, PAGE, PROT_READ | PROT_EXEC);
	EXPECT_EQ(1, live(self->text, 16 * PAGE));
}

TEST_F(lifetime, bound)
{
	const size_t count = 70000;
	unsigned char *text = text_map(count);
	size_t done = 0;
	int ret = 0;

	while (done < count && !(ret = add(self->section, text + done, 1)))
		done++;
	EXPECT_EQ(-ENOSPC, ret);
	EXPECT_LT(60000, done);
	TH_LOG("%zu registrations", done);
	munmap(text, count);
	EXPECT_EQ(0, live(text, count));
	EXPECT_EQ(1, live(self->text, 16 * PAGE));
}

/* Trees of several levels, freed whole; what RCU frees is freed when this returns. */
TEST_F(lifetime, exit_with_many)
{
	const size_t count = 50000;
	unsigned char *text = text_map(count);
	int status;
	pid_t pid = fork();

	if (!pid) {
		size_t done = 0;

		while (done < count && !add(self->section, text + done, 1))
			done++;
		_exit(done != count);
	}
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, syscall(__NR_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0));
	usleep(200000);
	EXPECT_EQ(1, live(self->text, 16 * PAGE));
	munmap(text, count);
}

static void *churn(void *arg)
{
	struct section *section = arg;
	int i;

	for (i = 0; i < 20000; i++) {
		void *text = text_map(PAGE);

		add(section, text, PAGE);
		munmap(text, PAGE);
	}
	return NULL;
}

TEST_F(lifetime, threads)
{
	pthread_t thread[2];
	int i, status;

	for (i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, churn, self->section);
	for (i = 0; i < 50; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(live(self->text, 16 * PAGE) != 1);
		waitpid(pid, &status, 0);
		EXPECT_EQ(0, status);
	}
	for (i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	EXPECT_EQ(1, live(self->text, 16 * PAGE));
}

TEST_HARNESS_MAIN
