// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random calls of sframe_register(2), sframe_unregister(2) and of what touches
 * registrations: mappings, fork, exec, exit.
 *
 *	fuzz_calls [SECONDS [SEED]]
 *
 * model: each result, and /proc/self/sframe, is what a model of the calls says.
 * faults: the same, while allocations and copies of the kernel fail: a call that
 * fails must have changed nothing. Needs fault injection.
 * races: threads register, replace, unregister, unmap, fork and overwrite the
 * sections while others run in the text and are sampled. What is wrong then, the
 * kernel's own checks must find: run it with KASAN, lockdep and kmemleak.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include "../kselftest.h"
#include "sample.h"
#include "section.h"

#define PAGES		64
#define SECTIONS	12
#define SECTION_ROOM	2048
#define SLOT		32
#define MAX_RANGES	4096

static unsigned char *text;
/* Each on a page of its own, whose protection changes. */
static unsigned char *sections;

struct random {
	uint64_t state;
};

static uint64_t random_next(struct random *r)
{
	r->state ^= r->state << 13;
	r->state ^= r->state >> 7;
	r->state ^= r->state << 17;
	return r->state * 0x2545f4914f6cdd1dULL;
}

static unsigned int below(struct random *r, unsigned int bound)
{
	return (random_next(r) >> 33) % bound;
}

static bool one_in(struct random *r, unsigned int n)
{
	return !below(r, n);
}

/*
 * Text that runs wherever in it a slot begins: calls the function that %rsi
 * points to until %rdi counts down, then spins a while. Without the section the
 * caller cannot be found: a random number of words is pushed. %rax is null, so
 * zeroed text faults on its first byte.
 */
static void slot_write(unsigned char *at, unsigned int pushes)
{
	unsigned char code[SLOT];
	size_t n = 0;
	unsigned int i;

	memset(code, 0x90, sizeof(code));
	for (i = 0; i < pushes; i++)
		code[n++] = 0x57;				/* push %rdi */
	memcpy(code + n, "\x83\xef\x01", 3);			/* sub $1, %edi */
	n += 3;
	memcpy(code + n, "\x74\x04", 2);			/* jz over the call */
	n += 2;
	memcpy(code + n, "\x56\xff\x16\x5e", 4);		/* push %rsi; call *(%rsi); pop */
	n += 4;
	for (i = 0; i < pushes; i++)
		code[n++] = 0x5f;				/* pop %rdi */
	code[n++] = 0xc3;					/* ret */
	memcpy(at, code, sizeof(code));
}

static void text_write(unsigned char *from, size_t size)
{
	size_t i;

	for (i = 0; i < size; i += SLOT)
		slot_write(from + i, (i / SLOT) % 4);
}

static void text_renew(struct random *r, unsigned int page, unsigned int count)
{
	int kind = one_in(r, 4) ? MAP_SHARED : MAP_PRIVATE;
	void *new = mmap(text + page * PAGE, count * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
			 kind | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	if (new != MAP_FAILED)
		text_write(new, count * PAGE);
}

static unsigned char *section_at(unsigned int which)
{
	return sections + which * PAGE;
}

/* A section whose rules fit some of the slots, or one with a few bytes changed. */
static bool section_renew(struct random *r, unsigned int which)
{
	struct section *s = (void *)section_at(which);
	unsigned int i, changes = one_in(r, 2) ? 0 : 1 + below(r, 6);

	section_make(s, (unsigned long)text, PAGES * PAGE);
	s->row_cfa = 8 * (1 + below(r, 6));
	for (i = 0; i < changes; i++)
		((unsigned char *)s)[below(r, sizeof(*s))] = random_next(r);
	return !changes;
}

/* What the calls should have made. */
struct range {
	unsigned long start, end, section;
};

static struct range model[MAX_RANGES];
static unsigned int model_count;
static bool section_good[SECTIONS], section_readable[SECTIONS];
static bool page_mapped[PAGES], page_exec[PAGES];
static unsigned long calls, refused, injected, samples_seen;
static const char *mismatch;
static char mismatch_text[256];

static struct range *model_touching(unsigned long start, unsigned long end)
{
	unsigned int i;

	for (i = 0; i < model_count; i++)
		if (model[i].start < end && start < model[i].end)
			return &model[i];
	return NULL;
}

static void model_remove(struct range *range)
{
	*range = model[--model_count];
}

static void model_unmap(unsigned long start, unsigned long end)
{
	struct range *range;

	while ((range = model_touching(start, end)))
		model_remove(range);
}

static bool model_executable(unsigned long start, unsigned long end)
{
	unsigned long page;

	for (page = (start - (unsigned long)text) / PAGE;
	     page * PAGE + (unsigned long)text < end; page++)
		if (page >= PAGES || !page_mapped[page] || !page_exec[page])
			return false;
	return true;
}

static int by_start(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static void differs(const char *what, long got, long expected)
{
	if (mismatch)
		return;
	mismatch = what;
	snprintf(mismatch_text, sizeof(mismatch_text), "%s: %ld, expected %ld (call %lu)",
		 what, got, expected, calls);
}

/* /proc/self/sframe, as far as it is about the text, against the model. */
static void model_compare(void)
{
	unsigned long begin = (unsigned long)text, end = begin + PAGES * PAGE;
	struct range range;
	unsigned int at = 0;
	char line[256];
	FILE *f = fopen("/proc/self/sframe", "r");

	if (!f)
		return differs("open /proc/self/sframe", -errno, 0);
	qsort(model, model_count, sizeof(model[0]), by_start);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx %lx", &range.start, &range.end, &range.section) != 3 ||
		    range.start >= end || range.end <= begin)
			continue;
		if (at >= model_count || range.start != model[at].start ||
		    range.end != model[at].end || range.section != model[at].section)
			differs("/proc/self/sframe, line", at, model_count);
		at++;
	}
	fclose(f);
	if (at != model_count)
		differs("/proc/self/sframe, lines", at, model_count);
}

/* fail-nth of this thread: the nth chance to fail is taken; 0: none. */
static int fail_nth = -1;
static bool armed;

static void inject(unsigned int nth)
{
	char number[16];

	if (fail_nth < 0)
		return;
	armed = nth;
	snprintf(number, sizeof(number), "%u", nth);
	if (pwrite(fail_nth, number, strlen(number), 0) < 0)
		differs("write fail-nth", -errno, 0);
}

/* Whether the chance came, so a failure is none of the call's own. */
static bool injected_now(void)
{
	char number[16] = "";

	if (!armed || pread(fail_nth, number, sizeof(number) - 1, 0) <= 0)
		return false;
	return atoi(number) == 0;
}

struct call {
	struct sframe_setup setup;
	size_t size;
	bool remove;
};

static void call_make(struct random *r, struct call *c)
{
	static const size_t sizes[] = { 32, 40, 48, 56, 4096 };
	unsigned long start, size;
	unsigned int which = below(r, SECTIONS);

	memset(c, 0, sizeof(*c));
	c->size = sizes[below(r, one_in(r, 8) ? 5 : 3)];
	c->remove = one_in(r, 3);
	start = below(r, PAGES * 8) * (PAGE / 8);
	size = (1 + below(r, one_in(r, 4) ? 64 : 6)) * (PAGE / 8);
	if (start + size > PAGES * PAGE)
		size = PAGES * PAGE - start;
	if (one_in(r, 3) && model_count) {
		struct range *range = &model[below(r, model_count)];

		start = range->start - (unsigned long)text;
		size = range->end - range->start;
		which = (range->section - (unsigned long)sections) / PAGE;
	}
	c->setup.sframe_start = (unsigned long)section_at(which);
	c->setup.sframe_size = sizeof(struct section);
	c->setup.text_start = (unsigned long)text + start;
	c->setup.text_size = size;
	if (c->remove && one_in(r, 6)) {
		c->setup.text_start = 0;
		c->setup.text_size = 0;
	}
	if (!c->remove && c->size >= 48) {
		if (one_in(r, 2))
			c->setup.flags |= SFRAME_REPLACE;
		if (one_in(r, 4))
			c->setup.flags |= SFRAME_GROWABLE;
		if (one_in(r, 16))
			c->setup.flags = random_next(r) >> below(r, 64);
	}
	if (one_in(r, 64))
		c->setup.text_start = random_next(r);
	if (one_in(r, 64))
		c->setup.text_size = random_next(r) >> below(r, 64);
	if (one_in(r, 64))
		c->setup.sframe_size = random_next(r) >> below(r, 64);
}

static int call_do(struct call *c)
{
	static __thread unsigned char buffer[PAGE];

	memset(buffer, 0, c->size);
	memcpy(buffer, &c->setup, c->size < sizeof(c->setup) ? c->size : sizeof(c->setup));
	return c->remove ? sframe_unregister(buffer, c->size) : sframe_register(buffer, c->size);
}

/* What the call should return; 1 where the section's bytes decide. */
static int model_expects(const struct call *c)
{
	const struct sframe_setup *s = &c->setup;
	/* With four levels of page tables, and with five. */
	const unsigned long low = (1UL << 47) - PAGE, high = (1UL << 56) - PAGE;
	unsigned long text_end = s->text_start + s->text_size;
	unsigned long section_end = s->sframe_start + s->sframe_size;
	unsigned int which = (s->sframe_start - (unsigned long)sections) / PAGE;
	struct range *range;
	unsigned int i;

	if (c->remove) {
		for (i = 0; i < model_count; i++) {
			range = &model[i];
			if (range->section != s->sframe_start)
				continue;
			if (!s->text_start && !s->text_size)
				return 0;
			if (range->start == s->text_start &&
			    range->end - range->start == s->text_size)
				return 0;
		}
		return -ENOENT;
	}
	if (s->flags & ~7ULL)
		return -EINVAL;
	if (!s->text_size || text_end < s->text_start || text_end > high)
		return -EINVAL;
	if (section_end < s->sframe_start || section_end > high)
		return -EINVAL;
	/* Also of a valid section: flags may not suit it, the size may be too small. */
	if (text_end > low || section_end > low ||
	    !section_readable[which] || !section_good[which] ||
	    s->sframe_size != sizeof(struct section) || s->flags & SFRAME_FUNC_BASE)
		return 1;
	if (s->text_start < (unsigned long)text || !model_executable(s->text_start, text_end))
		return -EINVAL;
	range = model_touching(s->text_start, text_end);
	if (s->flags & SFRAME_REPLACE)
		return range && range->start == s->text_start && range->end == text_end ?
		       0 : -ENOENT;
	return range ? -EEXIST : 0;
}

static void model_follow(const struct call *c)
{
	const struct sframe_setup *s = &c->setup;
	unsigned int i = 0;

	if (!c->remove) {
		struct range *range = model_touching(s->text_start, s->text_start + s->text_size);

		if (range)
			range->section = s->sframe_start;
		else if (model_count < MAX_RANGES)
			model[model_count++] = (struct range) {
				s->text_start, s->text_start + s->text_size, s->sframe_start };
		return;
	}
	while (i < model_count) {
		if (model[i].section == s->sframe_start &&
		    (!s->text_size || model[i].start == s->text_start))
			model_remove(&model[i]);
		else
			i++;
	}
}

static void model_call(struct random *r)
{
	struct call c;
	int expected, got;
	bool failed;

	call_make(r, &c);
	expected = model_expects(&c);
	inject(one_in(r, 2) ? 1 + below(r, 12) : 0);
	got = call_do(&c);
	failed = injected_now();
	inject(0);
	calls++;
	refused += got < 0;
	injected += failed;
	if (failed && (got == -ENOMEM || got == -EFAULT))
		return;
	/* In parts: a section of several ranges loses all or, never here, some. */
	if (expected == 1) {
		if (got && got != -EINVAL && got != -EFAULT && got != -EEXIST && got != -ENOENT)
			differs("register a poor section", got, -EINVAL);
	} else if (got != expected) {
		differs(c.remove ? "unregister" : "register", got, expected);
		ksft_print_msg("size %zu: section %#llx+%#llx text %#llx+%#llx flags %#llx\n",
			       c.size, c.setup.sframe_start, c.setup.sframe_size,
			       c.setup.text_start, c.setup.text_size, c.setup.flags);
	}
	if (!got)
		model_follow(&c);
}

static void model_mapping(struct random *r)
{
	unsigned int page = below(r, PAGES), count = 1 + below(r, 4), i;
	unsigned long at;
	int prot = PROT_READ | PROT_WRITE;

	if (page + count > PAGES)
		count = PAGES - page;
	at = (unsigned long)text + page * PAGE;
	switch (below(r, 4)) {
	case 0:
		munmap((void *)at, count * PAGE);
		model_unmap(at, at + count * PAGE);
		memset(page_mapped + page, 0, count);
		return;
	case 1:
		/* A part without text stays: mprotect() then fails part of the way. */
		for (i = 0; i < count; i++)
			if (!page_mapped[page + i])
				return;
		if (one_in(r, 2))
			prot |= PROT_EXEC;
		if (mprotect((void *)at, count * PAGE, prot))
			differs("mprotect", -errno, 0);
		memset(page_exec + page, !!(prot & PROT_EXEC), count);
		return;
	default:
		text_renew(r, page, count);
		model_unmap(at, at + count * PAGE);
		memset(page_mapped + page, 1, count);
		memset(page_exec + page, 1, count);
	}
}

static void model_section(struct random *r)
{
	unsigned int which = below(r, SECTIONS);

	section_readable[which] = true;
	mprotect(section_at(which), PAGE, PROT_READ | PROT_WRITE);
	section_good[which] = section_renew(r, which);
	if (one_in(r, 8)) {
		mprotect(section_at(which), PAGE, PROT_NONE);
		section_readable[which] = false;
	}
}

/* The child has what the parent has. */
static void model_fork(struct random *r)
{
	int status = 0;
	bool failed;
	pid_t pid;

	inject(one_in(r, 2) ? 1 + below(r, 300) : 0);
	pid = fork();
	if (!pid) {
		mismatch = NULL;
		model_compare();
		_exit(mismatch ? 1 : 0);
	}
	failed = injected_now();
	inject(0);
	injected += failed;
	if (pid < 0 && !failed)
		differs("fork", -errno, 0);
	if (pid > 0)
		waitpid(pid, &status, 0);
	if (status)
		differs("registrations of a child", status, 0);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void model_run(const char *name, uint64_t seed, double seconds)
{
	struct random r = { .state = seed };
	double end = now() + seconds;
	unsigned int i;

	calls = 0;
	refused = 0;
	injected = 0;
	mismatch = NULL;
	text_renew(&r, 0, PAGES);
	memset(page_mapped, 1, sizeof(page_mapped));
	memset(page_exec, 1, sizeof(page_exec));
	model_count = 0;
	for (i = 0; i < SECTIONS; i++) {
		section_readable[i] = true;
		section_good[i] = section_renew(&r, i);
	}
	while (now() < end && !mismatch) {
		for (i = 0; i < 8; i++)
			model_call(&r);
		if (one_in(&r, 2))
			model_mapping(&r);
		if (one_in(&r, 4))
			model_section(&r);
		if (one_in(&r, 16))
			model_fork(&r);
		if (one_in(&r, 4))
			model_compare();
	}
	for (i = 0; i < SECTIONS; i++)
		mprotect(section_at(i), PAGE, PROT_READ | PROT_WRITE);
	/* Not left to others: the next run maps over it. */
	mmap(text, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	ksft_print_msg("%s: %lu calls, %lu refused, %lu with a fault injected\n",
		       name, calls, refused, injected);
	if (mismatch)
		ksft_print_msg("%s: %s\n", name, mismatch_text);
	ksft_test_result(!mismatch && calls > 100, "%s\n", name);
}

static void write_to(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY);

	if (fd >= 0) {
		if (write(fd, value, strlen(value)) < 0)
			ksft_print_msg("%s: %s\n", path, strerror(errno));
		close(fd);
	}
}

/* Allocations that may sleep and single pages fail too, copies of user memory also. */
static bool faults_prepare(void)
{
	write_to("/sys/kernel/debug/failslab/ignore-gfp-wait", "N");
	write_to("/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait", "N");
	write_to("/sys/kernel/debug/fail_page_alloc/min-order", "0");
	write_to("/sys/kernel/debug/failslab/verbose", "0");
	write_to("/sys/kernel/debug/fail_page_alloc/verbose", "0");
	write_to("/sys/kernel/debug/fail_usercopy/verbose", "0");
	fail_nth = open("/proc/thread-self/fail-nth", O_RDWR);
	return fail_nth >= 0;
}

static double races_end;
static unsigned long made[4];

static void *race_calls(void *arg)
{
	struct random r = { .state = (uintptr_t)arg };
	struct call c;

	while (now() < races_end) {
		call_make(&r, &c);
		__atomic_add_fetch(&made[0], !call_do(&c), __ATOMIC_RELAXED);
		if (one_in(&r, 16))
			section_renew(&r, below(&r, SECTIONS));
	}
	return NULL;
}

static void *race_mappings(void *arg)
{
	struct random r = { .state = (uintptr_t)arg };

	while (now() < races_end) {
		unsigned int page = below(&r, PAGES - 4);
		void *at = text + page * PAGE;
		unsigned int which = below(&r, SECTIONS);

		switch (below(&r, 6)) {
		case 0:
			mprotect(at, PAGE, PROT_READ | PROT_WRITE);
			mprotect(at, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
			break;
		case 1:
			mremap(at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
			       text + (PAGES - 1) * PAGE);
			text_renew(&r, page, 1);
			break;
		case 2:
			madvise(section_at(which), PAGE, MADV_DONTNEED);
			section_renew(&r, which);
			break;
		case 3:
			munmap(at, PAGE);
			text_renew(&r, page, 1);
			break;
		default:
			text_renew(&r, page, 1 + below(&r, 4));
		}
		made[1]++;
		usleep(below(&r, 2000));
	}
	return NULL;
}

static void *race_processes(void *arg)
{
	static char *const words[] = { "fuzz_calls", "exits", NULL };
	struct random r = { .state = (uintptr_t)arg };
	struct call c;
	int i;

	while (now() < races_end) {
		pid_t pid = fork();

		if (!pid) {
			for (i = 0; i < 20; i++) {
				call_make(&r, &c);
				call_do(&c);
			}
			if (one_in(&r, 2))
				execv("/proc/self/exe", words);
			_exit(0);
		}
		if (pid > 0) {
			if (one_in(&r, 4))
				kill(pid, SIGKILL);
			waitpid(pid, NULL, 0);
		}
		made[2]++;
		usleep(below(&r, 4000));
	}
	return NULL;
}

static __thread sigjmp_buf text_went;
static __thread bool in_text;

static void on_fault(int signal)
{
	struct sigaction fatal = { .sa_handler = SIG_DFL };

	if (__atomic_load_n(&in_text, __ATOMIC_RELAXED))
		siglongjmp(text_went, 1);
	sigaction(signal, &fatal, NULL);
}

static void enter_text(unsigned int depth, void *const *next)
{
	unsigned int count = depth;
	void *const *table = next;

	/* Below the red zone. Where text vanishes on the way, on_fault() restores the stack. */
	asm volatile("sub $128, %%rsp\n\t"
		     "xor %%eax, %%eax\n\t"
		     "call *(%%rsi)\n\t"
		     "add $128, %%rsp"
		     : "+D" (count), "+S" (table)
		     : : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "memory", "cc");
}

static void run_text(unsigned int depth, void *const *next)
{
	if (!sigsetjmp(text_went, 1)) {
		__atomic_store_n(&in_text, true, __ATOMIC_RELAXED);
		enter_text(depth, next);
	}
	__atomic_store_n(&in_text, false, __ATOMIC_RELAXED);
}

static void *race_runner(void *arg)
{
	struct random r = { .state = (uintptr_t)arg };
	static char stacks[8][65536];
	static int next_stack;
	stack_t stack = { .ss_sp = stacks[__atomic_fetch_add(&next_stack, 1, __ATOMIC_RELAXED) % 8],
			  .ss_size = sizeof(stacks[0]) };
	struct sampler sampler;
	void *entry;
	int error;

	sigaltstack(&stack, NULL);
	error = sample_open(&sampler, 20000);
	if (error)
		return (void *)(long)error;
	while (now() < races_end) {
		struct sample sample;
		unsigned int i;

		entry = text + below(&r, PAGES * PAGE / SLOT) * SLOT;
		for (i = 0; i < 50; i++)
			run_text(1 + below(&r, 60), &entry);
		for (i = 0; sample_next(&sampler, &sample); i++)
			if (sample.count < 1)
				differs("addresses in a call chain", 0, 1);
		__atomic_add_fetch(&samples_seen, i, __ATOMIC_RELAXED);
		made[3]++;
	}
	sample_close(&sampler);
	return NULL;
}

static void races_run(uint64_t seed, double seconds)
{
	static void *(*const bodies[])(void *) = {
		race_calls, race_calls, race_mappings, race_processes, race_runner, race_runner,
	};
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_ONSTACK };
	pthread_t threads[ARRAY_SIZE(bodies)];
	void *result;
	size_t i;

	text = mmap(text, PAGES * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	text_write(text, PAGES * PAGE);
	model_count = 0;
	mismatch = NULL;
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGILL, &action, NULL);
	sigaction(SIGTRAP, &action, NULL);
	races_end = now() + seconds;
	for (i = 0; i < ARRAY_SIZE(bodies); i++)
		pthread_create(&threads[i], NULL, bodies[i], (void *)(seed * 64 + 2 * i + 1));
	for (i = 0; i < ARRAY_SIZE(bodies); i++) {
		pthread_join(threads[i], &result);
		if (result)
			differs("a thread", (long)result, 0);
	}
	ksft_print_msg("races: %lu calls that succeeded, %lu mappings, %lu processes\n",
		       made[0], made[1], made[2]);
	ksft_print_msg("races: %lu rounds, %lu samples\n", made[3], samples_seen);
	if (mismatch)
		ksft_print_msg("races: %s\n", mismatch_text);
	ksft_test_result(!mismatch && made[0] && samples_seen, "races\n");
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 15;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : time(NULL);

	if (argc > 1 && !strcmp(argv[1], "exits"))
		return 0;
	ksft_print_header();
	if (sframe_register(NULL, 0) == -ENOSYS)
		ksft_exit_skip("kernel without sframe_register\n");
	ksft_set_plan(3);
	seed = seed * 2 + 1;
	ksft_print_msg("fuzz_calls %g %llu\n", seconds, (unsigned long long)seed / 2);
	text = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sections = mmap(NULL, SECTIONS * PAGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (text == MAP_FAILED || sections == MAP_FAILED)
		ksft_exit_fail_perror("mmap");

	model_run("model", seed, seconds / 3);
	if (faults_prepare()) {
		model_run("faults", seed + 2, seconds / 3);
		close(fail_nth);
		fail_nth = -1;
	} else {
		ksft_test_result_skip("faults: kernel without fault injection\n");
	}
	races_run(seed, seconds / 3);
	ksft_finished();
}
