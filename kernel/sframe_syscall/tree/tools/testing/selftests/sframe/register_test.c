// SPDX-License-Identifier: GPL-2.0-only
/*
 * sframe_register(2) and sframe_unregister(2): every argument that is refused,
 * and what is accepted.
 */
#include "../kselftest_harness.h"
#include "section.h"

FIXTURE(registration) {
	unsigned char *text;
	struct section *section;
	struct sframe_setup setup;
};

FIXTURE_SETUP(registration)
{
	self->text = text_map(16 * PAGE);
	self->section = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->text);
	ASSERT_NE(MAP_FAILED, (void *)self->section);
	section_make(self->section, (unsigned long)self->text, 16 * PAGE);
	self->setup = (struct sframe_setup) {
		.sframe_start = (unsigned long)self->section,
		.sframe_size = sizeof(*self->section),
		.text_start = (unsigned long)self->text,
		.text_size = 16 * PAGE,
	};
	if (sframe_register(NULL, 0) == -ENOSYS)
		SKIP(return, "kernel without sframe_register");
}

FIXTURE_TEARDOWN(registration)
{
	munmap(self->text, 16 * PAGE);
	munmap(self->section, 16 * PAGE);
}

static int live(const struct sframe_setup *setup)
{
	return ranges_in(setup->text_start, setup->text_start + 16 * PAGE);
}

TEST_F(registration, sizes)
{
	static const struct { size_t size; int expect; } cases[] = {
		{ 0, -EINVAL }, { 31, -EINVAL }, { 32, 0 }, { 33, 0 }, { 40, 0 }, { 48, 0 },
		{ 56, 0 }, { 4096, 0 }, { 4097, -E2BIG },
	};
	static unsigned char buffer[8192];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		memset(buffer, 0, sizeof(buffer));
		memcpy(buffer, &self->setup, 32);
		EXPECT_EQ(cases[i].expect, sframe_register(buffer, cases[i].size)) {
			TH_LOG("size %zu", cases[i].size);
		}
		if (!cases[i].expect)
			EXPECT_EQ(0, sframe_unregister(buffer, cases[i].size));
		EXPECT_EQ(0, live(&self->setup));
	}
	/* A tail that this kernel does not know must be zero. */
	memcpy(buffer, &self->setup, 48);
	buffer[55] = 1;
	EXPECT_EQ(-E2BIG, sframe_register(buffer, 56));
	EXPECT_EQ(-E2BIG, sframe_register(buffer, 4096));
	EXPECT_EQ(0, sframe_register(buffer, 48));
}

TEST_F(registration, setup_memory)
{
	unsigned char *two = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char *across = two + PAGE - 16;

	memcpy(across, &self->setup, 48);
	EXPECT_EQ(0, sframe_register(across, 48));
	EXPECT_EQ(0, sframe_unregister(across, 32));
	munmap(two + PAGE, PAGE);
	EXPECT_EQ(-EFAULT, sframe_register(across, 48));
	EXPECT_EQ(-EFAULT, sframe_register((void *)16, 48));
	munmap(two, PAGE);
}

TEST_F(registration, flags)
{
	struct sframe_setup bad = self->setup;

	bad.flags = 1 << 3;
	EXPECT_EQ(-EINVAL, sframe_register(&bad, sizeof(bad)));
	bad.flags = 0;
	bad.func_base = 4096;
	EXPECT_EQ(-EINVAL, sframe_register(&bad, sizeof(bad)));
	/* A PC-relative section has no base. */
	bad.flags = SFRAME_FUNC_BASE;
	EXPECT_EQ(-EINVAL, sframe_register(&bad, sizeof(bad)));
	self->section->flags = 1;
	EXPECT_EQ(0, sframe_register(&bad, sizeof(bad)));
	EXPECT_EQ(1, live(&self->setup));
}

TEST_F(registration, ranges)
{
	struct sframe_setup bad = self->setup;

	bad.text_size = 0;
	EXPECT_EQ(-EINVAL, sframe_register(&bad, sizeof(bad)));
	bad.text_size = -bad.text_start;
	EXPECT_EQ(-EINVAL, sframe_register(&bad, sizeof(bad)));
	bad.text_size = ~0ULL;
	EXPECT_EQ(-EINVAL, sframe_register(&bad, sizeof(bad)));
	bad = self->setup;
	bad.sframe_size = ~0ULL;
	EXPECT_EQ(-EINVAL, sframe_register(&bad, sizeof(bad)));
	bad.sframe_size = 27;
	EXPECT_EQ(-EINVAL, sframe_register(&bad, sizeof(bad)));
	bad.sframe_size = 1UL << 40;
	EXPECT_EQ(-EFAULT, sframe_register(&bad, sizeof(bad)));
	bad = self->setup;
	bad.text_start = 1UL << 63;
	EXPECT_EQ(-EINVAL, sframe_register(&bad, sizeof(bad)));
	EXPECT_EQ(0, live(&self->setup));
}

TEST_F(registration, overlap_and_neighbours)
{
	struct sframe_setup s = self->setup;
	unsigned long text = s.text_start;

	s.text_start = text + 4 * PAGE;
	s.text_size = 4 * PAGE;
	ASSERT_EQ(0, sframe_register(&s, 32));
	EXPECT_EQ(-EEXIST, sframe_register(&s, 32));
	s.text_start = text + 4 * PAGE - 1;
	s.text_size = 2;
	EXPECT_EQ(-EEXIST, sframe_register(&s, 32));
	s.text_start = text + 8 * PAGE - 1;
	EXPECT_EQ(-EEXIST, sframe_register(&s, 32));
	s.text_start = text;
	s.text_size = 16 * PAGE;
	EXPECT_EQ(-EEXIST, sframe_register(&s, 32));
	EXPECT_EQ(1, live(&self->setup));
	s.text_start = text + 8 * PAGE;
	s.text_size = 1;
	EXPECT_EQ(0, sframe_register(&s, 32));
	s.text_start = text + 4 * PAGE - 1;
	EXPECT_EQ(0, sframe_register(&s, 32));
	EXPECT_EQ(3, live(&self->setup));
}

TEST_F(registration, unregister)
{
	struct sframe_setup s = self->setup;
	int i;

	for (i = 0; i < 16; i++) {
		s.text_start = self->setup.text_start + i * PAGE;
		s.text_size = PAGE;
		ASSERT_EQ(0, sframe_register(&s, 32));
	}
	/* The last one by its range. */
	EXPECT_EQ(0, sframe_unregister(&s, 32));
	EXPECT_EQ(-ENOENT, sframe_unregister(&s, 32));
	EXPECT_EQ(15, live(&self->setup));
	s.text_start = self->setup.text_start + 1;
	EXPECT_EQ(-ENOENT, sframe_unregister(&s, 32));
	/* The others by the section. */
	s.text_start = 0;
	s.text_size = 0;
	EXPECT_EQ(0, sframe_unregister(&s, 32));
	EXPECT_EQ(0, live(&self->setup));
	EXPECT_EQ(-ENOENT, sframe_unregister(&s, 32));
}

TEST_F(registration, text_must_be_executable)
{
	struct sframe_setup s = self->setup;

	mprotect(self->text + 8 * PAGE, PAGE, PROT_READ);
	EXPECT_EQ(-EINVAL, sframe_register(&s, 32));
	s.text_size = 8 * PAGE;
	EXPECT_EQ(0, sframe_register(&s, 32));
	EXPECT_EQ(0, sframe_unregister(&s, 32));
	munmap(self->text + 4 * PAGE, PAGE);
	EXPECT_EQ(-EINVAL, sframe_register(&s, 32));
	/* Several mappings side by side are as good as one. */
	s.text_start += 5 * PAGE;
	s.text_size = 3 * PAGE;
	mprotect(self->text + 6 * PAGE, PAGE, PROT_READ | PROT_EXEC);
	EXPECT_EQ(0, sframe_register(&s, 32));
}

TEST_F(registration, section_must_be_readable)
{
	mprotect(self->section, PAGE, PROT_NONE);
	EXPECT_EQ(-EFAULT, sframe_register(&self->setup, 32));
	mprotect(self->section, PAGE, PROT_READ);
	EXPECT_EQ(0, sframe_register(&self->setup, 32));
}

TEST_F(registration, versions)
{
	self->section->version = 1;
	EXPECT_EQ(-EINVAL, sframe_register(&self->setup, 32));
	self->section->version = 4;
	EXPECT_EQ(-EINVAL, sframe_register(&self->setup, 32));
	self->section->version = 3;
	self->section->magic = 0xe2de;
	EXPECT_EQ(-EINVAL, sframe_register(&self->setup, 32));
	self->section->magic = 0xdee2;
	self->section->abi = 2;
	EXPECT_EQ(-EINVAL, sframe_register(&self->setup, 32));
	self->section->abi = 3;
	self->section->num_fdes = 0x10000000;
	EXPECT_EQ(-EINVAL, sframe_register(&self->setup, 32));
	/* No functions: legal, covers nothing. */
	self->section->num_fdes = 0;
	EXPECT_EQ(0, sframe_register(&self->setup, 32));
}

TEST_F(registration, replace)
{
	struct sframe_setup s = self->setup;
	struct section *other = (void *)((char *)self->section + PAGE);

	section_make(other, s.text_start, 16 * PAGE);
	s.sframe_start = (unsigned long)other;
	s.flags = SFRAME_REPLACE;
	EXPECT_EQ(-ENOENT, sframe_register(&s, sizeof(s)));
	ASSERT_EQ(0, sframe_register(&self->setup, 32));
	EXPECT_EQ(0, sframe_register(&s, sizeof(s)));
	EXPECT_EQ(1, live(&self->setup));
	s.text_size -= PAGE;
	EXPECT_EQ(-ENOENT, sframe_register(&s, sizeof(s)));
	/* The old section is gone, the new one is there. */
	EXPECT_EQ(-ENOENT, sframe_unregister(&self->setup, 32));
	s.text_size += PAGE;
	s.flags = 0;
	EXPECT_EQ(0, sframe_unregister(&s, 32));
}

TEST_HARNESS_MAIN
