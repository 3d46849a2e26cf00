/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Call chains of the calling thread, as the deferred unwinder finds them.
 *
 *	struct sampler s;
 *	struct sample sample;
 *
 *	if (!sample_open(&s, 10000)) {
 *		work();
 *		while (sample_next(&s, &sample))
 *			look_at(sample.ips, sample.count);
 *		sample_close(&s);
 *	}
 */
#ifndef SELFTESTS_SFRAME_SAMPLE_H
#define SELFTESTS_SFRAME_SAMPLE_H

#include <errno.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SAMPLE_PAGE	4096UL
/* A power of two. */
#define SAMPLE_PAGES	64UL
#define SAMPLE_FRAMES	512

struct sampler {
	int fd;
	struct perf_event_mmap_page *page;
	unsigned long lost;
};

/* ips[0] is where the thread was; no address is the kernel's unless it is at fault. */
struct sample {
	unsigned int count;
	uint64_t ips[SAMPLE_FRAMES];
};

/* Samples the calling thread by its CPU time. 0 or -errno. */
static inline int sample_open(struct sampler *s, unsigned int hertz)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_freq = hertz,
		.freq = 1,
		.sample_type = PERF_SAMPLE_CALLCHAIN,
		.exclude_callchain_kernel = 1,
		.defer_callchain = 1,
		.defer_output = 1,
	};

	memset(s, 0, sizeof(*s));
	s->fd = syscall(__NR_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (s->fd < 0)
		return -errno;
	s->page = mmap(NULL, (1 + SAMPLE_PAGES) * SAMPLE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED,
		       s->fd, 0);
	if (s->page == MAP_FAILED) {
		close(s->fd);
		return -errno;
	}
	return 0;
}

static inline void sample_close(struct sampler *s)
{
	munmap(s->page, (1 + SAMPLE_PAGES) * SAMPLE_PAGE);
	close(s->fd);
}

static inline void sample_copy(const struct sampler *s, void *to, uint64_t from, size_t size)
{
	const unsigned char *ring = (unsigned char *)s->page + SAMPLE_PAGE;
	size_t at = from % (SAMPLE_PAGES * SAMPLE_PAGE);
	size_t first = SAMPLE_PAGES * SAMPLE_PAGE - at;

	if (first > size)
		first = size;
	memcpy(to, ring + at, first);
	memcpy((unsigned char *)to + first, ring, size - first);
}

/* The next deferred call chain; 0 when there is none. What did not fit is counted in lost. */
static inline int sample_next(struct sampler *s, struct sample *sample)
{
	uint64_t tail = s->page->data_tail;
	uint64_t head = __atomic_load_n(&s->page->data_head, __ATOMIC_ACQUIRE);
	struct perf_event_header header;
	uint64_t words[2];
	int found = 0;

	while (tail < head && !found) {
		sample_copy(s, &header, tail, sizeof(header));
		if (header.type == PERF_RECORD_LOST) {
			sample_copy(s, words, tail + sizeof(header), sizeof(words));
			s->lost += words[1];
		} else if (header.type == PERF_RECORD_CALLCHAIN_DEFERRED) {
			/* A cookie, the number of addresses, the addresses. */
			sample_copy(s, words, tail + sizeof(header), sizeof(words));
			sample->count = words[1] < SAMPLE_FRAMES ? words[1] : SAMPLE_FRAMES;
			sample_copy(s, sample->ips, tail + sizeof(header) + sizeof(words),
				    sample->count * sizeof(sample->ips[0]));
			found = 1;
		}
		tail += header.size;
	}
	__atomic_store_n(&s->page->data_tail, tail, __ATOMIC_RELEASE);
	return found;
}

#endif
