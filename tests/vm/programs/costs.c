/* SPDX-License-Identifier: MIT */
/*
 * costs: what calls cost, in nanoseconds of the guest's clock, one "name value"
 * a line; under QEMU's -icount a nanosecond is an instruction.
 *
 *	costs calls		fork and exit, mmap and munmap, fork and exec, with nothing registered
 *	costs register		register and unregister beside 10, 1,000 and 50,000 registrations,
 *				and the kernel memory of each
 *	costs nothing		what is executed for "exec"
 *
 * Each figure is the median of several loops: the timer's ticks are no part of it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sframe_format.h"

enum { LOOPS = 101, MOST = 50000, TEXT = 64, SECTION = 64 };

/* As in the kernel's header. */
struct setup {
	uint64_t sframe_start, sframe_size, text_start, text_size;
};

static long register_nr, unregister_nr;
static char *text, *sections, *self;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static long number(const char *name)
{
	char path[64];
	long value = -1;
	snprintf(path, sizeof(path), "/sys/kernel/sframe/%s", name);
	FILE *file = fopen(path, "r");
	if (!file || fscanf(file, "%ld", &value) != 1)
		fail(path);
	fclose(file);
	return value;
}

static uint64_t now(void)
{
	struct timespec t;
	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* The median of LOOPS runs of work; undo follows each, untimed. */
static uint64_t median(void (*work)(void), void (*undo)(void))
{
	uint64_t took[LOOPS];
	for (int i = 0; i < LOOPS; i++) {
		uint64_t begin = now();
		work();
		took[i] = now() - begin;
		if (undo)
			undo();
	}
	qsort(took, LOOPS, sizeof(took[0]), ascending);
	return took[LOOPS / 2];
}

static void reap(pid_t child)
{
	int status;
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		fail("child");
}

static void fork_and_exit(void)
{
	pid_t child = fork();
	if (child == 0)
		_exit(0);
	reap(child);
}

static void fork_and_exec(void)
{
	pid_t child = fork();
	if (child == 0) {
		execl(self, self, "nothing", (char *)NULL);
		_exit(1);
	}
	reap(child);
}

static void map_and_unmap(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED || munmap(page, 4096))
		fail("mmap");
}

static struct setup setup_of(int i)
{
	return (struct setup){ (uintptr_t)sections + (uintptr_t)i * SECTION, SFRAME_HEADER_SIZE,
			       (uintptr_t)text + (uintptr_t)i * TEXT, TEXT };
}

static void add(int i)
{
	struct setup setup = setup_of(i);
	if (syscall(register_nr, &setup, sizeof(setup)))
		fail("sframe_register");
}

static void drop(int i)
{
	struct setup setup = setup_of(i);
	if (syscall(unregister_nr, &setup, sizeof(setup)))
		fail("sframe_unregister");
}

/* In the middle of the others. */
static int middle;

static void add_middle(void)
{
	add(middle);
}

static void drop_middle(void)
{
	drop(middle);
}

static long slab_bytes(void)
{
	char line[128];
	long kilobytes = -1;
	FILE *file = fopen("/proc/meminfo", "r");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Slab: %ld", &kilobytes) == 1)
			break;
	if (kilobytes < 0)
		fail("/proc/meminfo");
	fclose(file);
	return kilobytes * 1024;
}

static void *area(size_t size, int protection)
{
	void *memory = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED)
		fail("mmap");
	return memory;
}

static void with_registrations(void)
{
	static const int counts[] = { 10, 1000, MOST };
	register_nr = number("register_nr");
	unregister_nr = number("unregister_nr");
	text = area((size_t)MOST * TEXT, PROT_READ | PROT_WRITE | PROT_EXEC);
	sections = area((size_t)MOST * SECTION, PROT_READ | PROT_WRITE);
	for (int i = 0; i < MOST; i++) {
		struct sframe_header header = { .magic = SFRAME_MAGIC, .version = SFRAME_VERSION_3,
						.flags = SFRAME_F_FDE_SORTED | SFRAME_F_FDE_FUNC_START_PCREL,
						.abi_arch = SFRAME_ABI_AMD64_ENDIAN_LITTLE,
						.cfa_fixed_ra_offset = -8 };
		memcpy(sections + (size_t)i * SECTION, &header, sizeof(header));
	}
	printf("mmap_munmap %lu\n", (unsigned long)median(map_and_unmap, NULL));
	long before = slab_bytes();
	int live = 0;
	for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
		while (live < counts[k])
			add(live++);
		if (counts[k] == MOST)
			printf("bytes_per_registration %ld\n", (slab_bytes() - before) / MOST);
		middle = counts[k] / 2;
		drop(middle);
		printf("register_%d %lu\n", counts[k], (unsigned long)median(add_middle, drop_middle));
		add(middle);
		printf("unregister_%d %lu\n", counts[k], (unsigned long)median(drop_middle, add_middle));
	}
}

int main(int argc, char **argv)
{
	self = argv[0];
	if (argc == 2 && !strcmp(argv[1], "nothing"))
		return 0;
	if (argc == 2 && !strcmp(argv[1], "calls")) {
		printf("fork_exit %lu\n", (unsigned long)median(fork_and_exit, NULL));
		printf("mmap_munmap %lu\n", (unsigned long)median(map_and_unmap, NULL));
		printf("fork_exec %lu\n", (unsigned long)median(fork_and_exec, NULL));
	} else if (argc == 2 && !strcmp(argv[1], "register")) {
		with_registrations();
	} else {
		fprintf(stderr, "usage: costs calls|register\n");
		return 2;
	}
	return 0;
}
