/* SPDX-License-Identifier: MIT */
/*
 * Looking at registrations: of this process from anywhere, of another process
 * for tools.
 *
 * Example: what covers a PC, from a signal handler.
 *
 *	struct sframe_range range = { .size = sizeof(range) };
 *	if (sframe_find(pc, &range) == 0)
 *		note(range.id, pc - range.load_bias);
 */
#ifndef SFRAME_REGISTRY_H
#define SFRAME_REGISTRY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One registered text range. */
struct sframe_range {
	size_t size;			/* sizeof(struct sframe_range) */
	uint64_t text_start, text_end;	/* half-open */
	uint64_t sframe_start, sframe_size;
	uint64_t func_base;		/* with SFRAME_FUNC_BASE in flags */
	uint64_t flags;			/* as registered */
	uint64_t load_bias;		/* of the object; 0 if unknown */
	uint64_t id;			/* never used twice in a process: a reload gets a new one */
	uint32_t source;		/* enum sframe_source */
	uint32_t version;		/* of the section's format */
	uint32_t build_id_size;
	unsigned char build_id[20];
};

/*
 * The range of this process that covers @pc: 0, -ENOENT, -EBUSY (gave up
 * against writers; counted), -EINVAL (range->size). Lock-free and
 * async-signal-safe.
 */
int sframe_find(uint64_t pc, struct sframe_range *range);

/*
 * Path of the object of range @id, or "" if it has none. Copies at most @size
 * bytes, NUL included; returns the length, or -ENOENT if the range is gone.
 * Async-signal-safe.
 */
int sframe_range_path(uint64_t id, char *path, size_t size);

/* Rises with every unregistration or replacement: rows learned before may be stale. */
uint64_t sframe_generation(void);

/* Another process's registry, read through its shared memory; the peer is not trusted. */
struct sframe_peer;

/*
 * -ESRCH no such process; -ENOENT it has no registry; -EACCES not ours to
 * read; -EBADMSG its registry makes no sense; -ENOMEM.
 */
int sframe_peer_open(struct sframe_peer **peer, int pid);
void sframe_peer_close(struct sframe_peer *peer);
/* Calls @visit for each live range in address order until it returns non-zero. Returns how many. */
int sframe_peer_each(struct sframe_peer *peer,
		     int (*visit)(const struct sframe_range *range, const char *path, void *arg),
		     void *arg);
/* The backend the process uses (enum sframe_backend), and its statistics. */
struct sframe_stats;
int sframe_peer_info(struct sframe_peer *peer, int *backend, struct sframe_stats *stats);
/*
 * The process that made the registrations: the peer itself, or the one it was
 * forked from if it has not registered anything of its own since.
 */
int sframe_peer_origin(const struct sframe_peer *peer);
/* Remove what killed processes of this user left in shared memory. Returns how many. */
int sframe_peer_sweep(void);

#ifdef __cplusplus
}
#endif
#endif
