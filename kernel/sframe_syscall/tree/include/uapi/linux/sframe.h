/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * sframe_register(2) and sframe_unregister(2): tell the kernel where the
 * SFrame section of a text range is, for code that is mapped or generated
 * after exec.
 */
#ifndef _UAPI_LINUX_SFRAME_H
#define _UAPI_LINUX_SFRAME_H

#include <linux/types.h>

/**
 * struct sframe_setup - one text range and the section that describes it
 * @sframe_start: address of the section's header
 * @sframe_size: its size in bytes
 * @text_start: first address covered
 * @text_size: size of the half-open range in bytes
 * @flags: SFRAME_GROWABLE, SFRAME_REPLACE, SFRAME_FUNC_BASE (since version 1)
 * @func_base: what function offsets count from, with SFRAME_FUNC_BASE, else 0
 *
 * The structure grows by appending. A caller passes the size that it was
 * compiled with; a longer structure is accepted while its unknown tail is 0.
 */
struct sframe_setup {
	__u64 sframe_start;
	__u64 sframe_size;
	__u64 text_start;
	__u64 text_size;
	__u64 flags;
	__u64 func_base;
};

#define SFRAME_SETUP_SIZE_VER0	32	/* sizeof first published struct */
#define SFRAME_SETUP_SIZE_VER1	48	/* flags and func_base */

/* The section has room at its end; entries are published by raising the count. */
#define SFRAME_GROWABLE		(1ULL << 0)
/* Swap the section of exactly this text range, atomically. */
#define SFRAME_REPLACE		(1ULL << 1)
/* Function offsets count from func_base. */
#define SFRAME_FUNC_BASE	(1ULL << 2)

#endif /* _UAPI_LINUX_SFRAME_H */
