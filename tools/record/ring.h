/* SPDX-License-Identifier: MIT */
/*
 * The sample ring: how samples travel from a sampled process to the recorder.
 *
 * One file, mapped by the recorder (one reader) and by every sampled process
 * (writers: signal handlers of any of their threads). Layout of the file:
 *
 *	struct ring_header	one page
 *	uint64_t stamp[slots]	one per slot: who owns it, and whether it is whole
 *	data			slots * RING_SLOT_SIZE bytes
 *
 * A slot has an absolute index that never wraps; its place is index % slots.
 * A record takes consecutive slots. A writer
 *
 *	1. reserves: head += n by compare-and-swap, if head + n - tail <= slots;
 *	2. marks: stamp[first] = RING_RESERVED(first);
 *	3. fills the slots in place;
 *	4. may give back what it did not need, if nobody reserved behind it;
 *	5. commits: stamp[first] goes from RING_RESERVED to RING_COMMITTED by
 *	   compare-and-swap with release.
 *
 * The reader takes records in order and raises tail. A record that stays
 * reserved too long is abandoned (its writer died between 1 and 5, or hangs):
 * the reader looks for the next slot whose stamp names its own index. A writer
 * that wakes up after that finds its stamp gone and counts itself as late;
 * bytes that it scribbled over a later record show in that record's checksum.
 *
 * +---------------------------------------------------------------------------+
 * | The other side may change this memory at any time. Copy, check, then use. |
 * | Nothing read from here is an address, a bound or a loop count before it   |
 * | was copied to private memory and checked there. Sizes are taken from the  |
 * | mapping, once, never again from the header.                               |
 * +---------------------------------------------------------------------------+
 */
#ifndef SFRAME_RECORD_RING_H
#define SFRAME_RECORD_RING_H

#include <stdint.h>

#define RING_MAGIC		UINT64_C(0x31676e6972667373)	/* "ssfring1" */
#define RING_VERSION		1u
#define RING_HEADER_SIZE	4096u
#define RING_SLOT_SIZE		256u
#define RING_MIN_SLOTS		512u
#define RING_MAX_SLOTS		(1u << 20)
#define RING_MAX_RECORD_SLOTS	65u	/* a sample of RING_MAX_FRAMES, an object with a long path */
#define RING_MAX_FRAMES		1024u
#define RING_MAX_PATH		4096u

/* Low byte 0: reserved; n: committed, n slots. The rest: the index + 1. */
#define RING_RESERVED(index)		(((uint64_t)(index) + 1) << 8)
#define RING_COMMITTED(index, n)	(RING_RESERVED(index) | (n))

/* Set by the recorder before the program starts, but for the counters. */
struct ring_header {
	uint64_t magic;
	uint32_t version;
	uint32_t slots;			/* a power of two */
	uint64_t period_ns;
	uint32_t wall;			/* 1: CLOCK_MONOTONIC, 0: each thread's CPU time */
	uint32_t follow;		/* 1: children are sampled too */
	uint32_t signo;			/* 0: the sampler chooses */
	uint32_t owner;			/* process id of the recorded program */
	uint32_t closed;		/* 1: the recorder is gone, stop */
	uint32_t reserved;

	uint64_t head __attribute__((aligned(64)));	/* next index to reserve */
	uint64_t tail __attribute__((aligned(64)));	/* first index not yet read; the reader's */

	/* Raised by writers. */
	uint64_t lost __attribute__((aligned(64)));	/* samples that found the ring full */
	uint64_t late;			/* samples whose slots were given up before the commit */
	uint64_t overruns;		/* timer periods that passed without a signal of their own */
	uint64_t unsampled_threads;	/* threads for which no timer could be had */
	uint64_t threads;		/* threads armed, ever */
	uint32_t next_image;		/* program images (exec, fork) numbered from 1 */
};

enum ring_kind {
	RING_SAMPLE = 1,
	RING_OBJECT,
	RING_IMAGE,
	RING_STATS,
};

/* At the start of each record. */
struct ring_record {
	uint32_t check;		/* ring_checksum() of what follows */
	uint32_t size;		/* bytes of the record, this header included */
	uint32_t kind;		/* enum ring_kind */
	uint32_t image;		/* number of the program image it is about */
};

/* RING_SAMPLE; behind it count PCs, then count range ids (0: no range). */
struct ring_sample {
	struct ring_record record;
	uint32_t pid, tid;
	uint64_t time_ns;	/* CLOCK_MONOTONIC */
	uint64_t stop_pc;
	uint32_t overrun;	/* periods that passed since the previous sample, beyond one */
	uint16_t stop;		/* enum sframe_stop */
	uint16_t count;
	uint16_t frames_sframe, frames_fp, frames_signal, reserved;
};

/* RING_OBJECT: the range of an id, sent before the first sample that names it is committed. */
struct ring_object {
	struct ring_record record;
	uint64_t id;
	uint64_t load_bias;
	uint64_t text_start, text_end;
	uint32_t source;	/* enum sframe_source */
	uint32_t version;	/* of the section's format */
	uint32_t build_id_size;
	uint32_t path_size;	/* bytes behind this structure, no NUL */
	unsigned char build_id[24];
};

/* RING_IMAGE: a program image starts being sampled. */
struct ring_image {
	struct ring_record record;
	uint32_t pid;
	uint32_t parent_image;	/* of the fork or exec; 0: none */
	uint64_t time_ns;
	uint64_t start_ns;	/* CLOCK_REALTIME of the same moment */
	uint32_t path_size;
	uint32_t reserved;
};

/* RING_STATS: what the auditor registered so far. */
struct ring_stats {
	struct ring_record record;
	uint64_t native, synthesized, refused;
	uint64_t live;
};

static inline uint32_t ring_checksum(const struct ring_record *record, uint32_t size)
{
	const unsigned char *p = (const unsigned char *)record;
	uint64_t h = UINT64_C(0x9e3779b97f4a7c15) ^ size;
	uint32_t at = sizeof(record->check);

	for (; at + 8 <= size; at += 8) {
		uint64_t v;

		__builtin_memcpy(&v, p + at, 8);
		h = (h ^ v) * UINT64_C(0xff51afd7ed558ccd);
		h ^= h >> 32;
	}
	for (; at < size; at++)
		h = (h ^ p[at]) * UINT64_C(0xff51afd7ed558ccd);
	return (uint32_t)(h ^ (h >> 32));
}

static inline uint64_t ring_data_offset(uint32_t slots)
{
	return RING_HEADER_SIZE + (uint64_t)slots * sizeof(uint64_t);
}

static inline uint64_t ring_file_size(uint32_t slots)
{
	return ring_data_offset(slots) + (uint64_t)slots * RING_SLOT_SIZE;
}

#endif
