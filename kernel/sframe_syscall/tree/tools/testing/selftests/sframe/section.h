/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tests of sframe_register(2) share: the calls, text to register, and
 * a small valid section for it.
 */
#ifndef SELFTESTS_SFRAME_SECTION_H
#define SELFTESTS_SFRAME_SECTION_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/sframe.h>

#ifndef __NR_sframe_register
#define __NR_sframe_register	473
#define __NR_sframe_unregister	474
#endif

#define PAGE	4096UL

struct section {
	uint16_t magic;
	uint8_t version;
	uint8_t flags;
	uint8_t abi;
	int8_t fixed_fp;
	int8_t fixed_ra;
	uint8_t auxhdr_len;
	uint32_t num_fdes;
	uint32_t num_fres;
	uint32_t fre_len;
	uint32_t fdeoff;
	uint32_t freoff;
	int64_t func_start;
	uint32_t func_size;
	uint32_t func_fre_off;
	uint16_t num_rows;
	uint8_t info;
	uint8_t info2;
	uint8_t rep_size;
	uint8_t row_start;
	uint8_t row_info;
	int8_t row_cfa;
} __attribute__((packed));

/* One function that covers [text, text + size): CFA = rsp + 8 throughout. */
static inline void section_make(struct section *s, unsigned long text, uint32_t size)
{
	memset(s, 0, sizeof(*s));
	s->magic = 0xdee2;
	s->version = 3;
	s->flags = 1 | 4;	/* sorted, PC-relative */
	s->abi = 3;
	s->fixed_ra = -8;
	s->num_fdes = 1;
	s->num_fres = 1;
	s->fre_len = 8;
	s->freoff = 16;
	s->func_start = (int64_t)(text - (unsigned long)&s->func_start);
	s->func_size = size;
	s->num_rows = 1;
	s->row_info = 1 | 1 << 1;	/* SP, one word of one byte */
	s->row_cfa = 8;
}

static inline int sframe_register(const void *setup, size_t size)
{
	return syscall(__NR_sframe_register, setup, size) ? -errno : 0;
}

static inline int sframe_unregister(const void *setup, size_t size)
{
	return syscall(__NR_sframe_unregister, setup, size) ? -errno : 0;
}

/* Fresh executable memory, zeroed. */
static inline void *text_map(size_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* How many ranges /proc/self/sframe shows that begin in [start, end). */
static inline int ranges_in(unsigned long start, unsigned long end)
{
	unsigned long from, to;
	char line[256];
	int count = 0;
	FILE *f = fopen("/proc/self/sframe", "r");

	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx", &from, &to) == 2 && from >= start && from < end)
			count++;
	fclose(f);
	return count;
}

#endif
