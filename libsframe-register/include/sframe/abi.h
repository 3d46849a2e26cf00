/* SPDX-License-Identifier: MIT */
/*
 * The interface of the sframe_register and sframe_unregister system calls.
 *
 * Example: tell the kernel about one text range and its SFrame section.
 *
 *	struct sframe_setup setup = {
 *		.sframe_start = (uintptr_t)section, .sframe_size = section_size,
 *		.text_start = (uintptr_t)text, .text_size = text_size,
 *	};
 *	int err = sframe_register(&setup, sizeof(setup));	// <sframe/register.h>
 *
 * The structure grows by appending. Callers pass the size they were compiled
 * with; a kernel accepts a longer one while the tail it does not know is zero.
 */
#ifndef SFRAME_ABI_H
#define SFRAME_ABI_H

#include <stdint.h>

struct sframe_setup {
	uint64_t sframe_start;	/* address of the section's header */
	uint64_t sframe_size;	/* bytes */
	uint64_t text_start;	/* first address covered */
	uint64_t text_size;	/* bytes; the range is half-open */
	/* version 1 */
	uint64_t flags;		/* SFRAME_GROWABLE | SFRAME_REPLACE | SFRAME_FUNC_BASE */
	uint64_t func_base;	/* with SFRAME_FUNC_BASE, else 0 */
};

#define SFRAME_SETUP_SIZE_VER0	32
#define SFRAME_SETUP_SIZE_VER1	48

/* The section has room at its end; entries are published by raising num_fdes. */
#define SFRAME_GROWABLE		(UINT64_C(1) << 0)
/* Swap the section of exactly this text range; no moment without information. */
#define SFRAME_REPLACE		(UINT64_C(1) << 1)
/* Function offsets of this section count from func_base. */
#define SFRAME_FUNC_BASE	(UINT64_C(1) << 2)

#endif
