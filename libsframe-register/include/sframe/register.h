/* SPDX-License-Identifier: MIT */
/*
 * libsframe-register: tell who unwinds about SFrame sections.
 *
 * Example: a program that maps code by itself.
 *
 *	#include <sframe/register.h>
 *
 *	struct sframe_object object = {
 *		.size = sizeof(object),
 *		.load_bias = bias, .phdr = phdrs, .phnum = n, .path = "/opt/x/plugin.so",
 *	};
 *	struct sframe_object_result result = { .size = sizeof(result) };
 *	int n = sframe_register_object(&object, &result);
 *	if (n < 0)
 *		fprintf(stderr, "plugin.so: not registered: %s\n", strerror(-n));
 *	...
 *	sframe_unregister_object(&object);	// before the unmapping
 *
 * Every call returns 0 or a positive value on success and -errno on failure;
 * none touches errno, prints or aborts. Unless said otherwise a call is
 * thread-safe, not async-signal-safe, and takes no lock of libc or ld.so.
 */
#ifndef SFRAME_REGISTER_H
#define SFRAME_REGISTER_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <sframe/abi.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Where registrations go.
 *
 * The choice is made at the first call, by the environment variable
 * SFRAME_BACKEND (auto, kernel, shm, none; default auto) or by
 * sframe_set_backend(). auto takes the kernel where it has the calls, else
 * shm. In any case but "none" the process also keeps its own index, which
 * sframe_backtrace() searches, and exports it for `sframectl list`.
 */
enum sframe_backend {
	SFRAME_BACKEND_AUTO = 0,
	SFRAME_BACKEND_NONE,	/* accept, check and forget */
	SFRAME_BACKEND_SHM,	/* the process's own registry, exported in shared memory */
	SFRAME_BACKEND_KERNEL,	/* the system calls, and the registry */
};

/* The backend in use (chooses one if none is yet). Never SFRAME_BACKEND_AUTO. */
int sframe_backend(void);

/*
 * Ask for a backend (enum sframe_backend) before the first registration.
 * Errors: -EBUSY something is registered already; -ENOSYS "kernel" was asked
 * for and the kernel has no such calls; -EINVAL unknown value.
 */
int sframe_set_backend(int backend);

/*
 * The bits of /sys/kernel/sframe/features that the kernel backend uses
 * (SFRAME_GROWABLE, SFRAME_REPLACE, SFRAME_FUNC_BASE); all of them under shm.
 */
uint64_t sframe_backend_features(void);

/*
 * Register or unregister one section: the system calls, or their equal in user
 * space. @size is sizeof(*setup) as the caller was compiled: 32 or 48.
 *
 * Register errors: -EINVAL (size, flags, wrap-around, empty text, section of
 * an unsupported version or damaged), -E2BIG (unknown tail not zero), -EEXIST
 * (overlaps a live range), -EFAULT (setup or section unreadable), -ENOENT
 * (SFRAME_REPLACE without such a range), -ENOSPC (bound reached), -ENOMEM.
 * Unregister: by sframe_start all ranges of that section; with text_start and
 * text_size just that one. -ENOENT if nothing matches.
 */
int sframe_register(const struct sframe_setup *setup, size_t size);
int sframe_unregister(const struct sframe_setup *setup, size_t size);

/* Where a registered section came from. */
enum sframe_source {
	SFRAME_SOURCE_UNKNOWN = 0,	/* registered by address alone */
	SFRAME_SOURCE_NATIVE,		/* the object's own .sframe */
	SFRAME_SOURCE_SYNTHESIZED,	/* made from .eh_frame */
	SFRAME_SOURCE_JIT,
	SFRAME_SOURCE_COUNT,
};

/*
 * One loaded ELF object, described by its program headers: section headers are
 * not needed. Pointers are read during the call only.
 */
struct sframe_object {
	size_t size;			/* sizeof(struct sframe_object) */
	uint64_t load_bias;		/* address of link-time address 0 */
	const Elf64_Phdr *phdr;
	size_t phnum;
	const char *path;		/* for people and for symbols; may be NULL */
	uint32_t flags;			/* SFRAME_OBJECT_* */
	uint32_t reserved;		/* 0 */
};

#define SFRAME_OBJECT_NO_SYNTH	0x1u	/* its own .sframe or nothing */
#define SFRAME_OBJECT_NO_CACHE	0x2u	/* neither read nor write the cache */
#define SFRAME_OBJECT_REPLACE	0x4u	/* swap what was registered here for these ranges */

struct sframe_object_result {
	size_t size;			/* sizeof(struct sframe_object_result) */
	uint32_t source;		/* enum sframe_source of what was registered */
	uint32_t ranges;		/* text ranges registered */
	uint64_t section_size;		/* bytes */
	uint32_t native_status;		/* enum sframe_status of its .sframe; see <sframe/decode.h> */
	uint32_t from_cache;		/* 1 if mapped from the cache, 0 if made now */
	uint64_t uncovered_bytes;	/* of .eh_frame coverage, that SFrame cannot express */
};

/*
 * Register every executable segment of an object: by its own .sframe if that
 * is usable and covers at least nine tenths of the functions that
 * .eh_frame_hdr counts, else by a section synthesized from .eh_frame (mapped
 * from the cache by build-id, or made and cached).
 *
 * Returns the number of ranges registered. Errors as sframe_register();
 * -ENOENT: neither a usable .sframe nor an .eh_frame; -ENOEXEC: headers make
 * no sense.
 */
int sframe_register_object(const struct sframe_object *object, struct sframe_object_result *result);

/* Drop what sframe_register_object() did and release its memory. -ENOENT if nothing. */
int sframe_unregister_object(const struct sframe_object *object);

/*
 * Register whatever is loaded in the caller's link-map namespace and is not
 * yet, the vDSO included (uses dl_iterate_phdr: not from a signal handler).
 * Returns the number of objects registered now.
 */
int sframe_register_loaded(void);

/* What happened in this process so far. All counts. */
struct sframe_stats {
	size_t size;			/* sizeof(struct sframe_stats) */
	uint64_t registered;		/* ranges, ever */
	uint64_t unregistered;
	uint64_t live;			/* ranges, now */
	uint64_t objects_native;
	uint64_t objects_synthesized;
	uint64_t objects_refused;	/* no usable information, or an error */
	uint64_t cache_hits;
	uint64_t cache_misses;		/* made anew */
	uint64_t cache_errors;		/* cache unusable: made in private memory */
	uint64_t synth_uncovered;	/* FDEs (or parts) that SFrame cannot express */
	uint64_t lookup_retries;	/* lookups that met a writer */
	uint64_t lookup_failures;	/* lookups that gave up */
	uint64_t export_errors;		/* shared memory could not be had */
};

/* Fill @stats up to @stats->size. -EINVAL if that is too small. Async-signal-safe. */
int sframe_get_stats(struct sframe_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
