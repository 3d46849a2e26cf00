/* SPDX-License-Identifier: MIT */
/*
 * SFrame sections made from .eh_frame.
 *
 * Example: make the section of a loaded object, look at it, release it.
 *
 *	struct sframe_image image;
 *	struct sframe_synth synth = { .size = sizeof(synth) };
 *	int err = sframe_image_from_memory(&image, bias, phdrs, phnum);
 *	if (!err)
 *		err = sframe_synthesize(&image, &synth);
 *	if (!err) {
 *		printf("%zu bytes, %u functions\n", synth.section_size, synth.stats.functions);
 *		sframe_synth_release(&synth);
 *	}
 *
 * The output is a version 3 section whose function offsets are the object's
 * link-time addresses (SFRAME_F_FDE_FUNC_START_PCREL clear): register it with
 * SFRAME_FUNC_BASE and the load bias as func_base. It is a function of the
 * input alone: the same object gives the same bytes.
 *
 * What SFrame cannot express is left uncovered, never wrong, and counted.
 * Input bytes are never trusted. Time and memory are in proportion to
 * .eh_frame. No libc allocation, no exceptions, no output: fit for an auditor.
 */
#ifndef SFRAME_SYNTH_H
#define SFRAME_SYNTH_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An ELF object as bytes at link-time addresses; filled by the calls below. */
struct sframe_image_segment {
	uint64_t vaddr;			/* link-time address */
	uint64_t size;			/* bytes present */
	const unsigned char *bytes;
	uint32_t flags;			/* PF_R | PF_W | PF_X */
	uint32_t reserved;
};

#define SFRAME_IMAGE_MAX_SEGMENTS 32

struct sframe_image {
	uint64_t load_bias;		/* of bytes in memory; 0 for a file */
	uint64_t eh_frame_hdr;		/* link-time address and size of PT_GNU_EH_FRAME, or 0 */
	uint64_t eh_frame_hdr_size;
	uint64_t eh_frame;		/* link-time address and size, or 0: found by the header */
	uint64_t eh_frame_size;
	uint64_t sframe;		/* link-time address and size of PT_GNU_SFRAME, or 0 */
	uint64_t sframe_size;
	unsigned char build_id[20];	/* or the first 20 bytes of a longer one */
	uint32_t build_id_size;		/* 0: none */
	uint32_t segment_count;		/* PT_LOAD, ascending */
	uint32_t machine;		/* EM_X86_64; 0 where only program headers are known */
	uint32_t relocated;		/* 1: bytes in memory, pointers already relocated */
	struct sframe_image_segment segment[SFRAME_IMAGE_MAX_SEGMENTS];
};

/* -ENOEXEC: headers make no sense; -E2BIG: too many segments; -ENOENT: no .eh_frame, no .sframe. */
int sframe_image_from_memory(struct sframe_image *image, uint64_t load_bias,
			     const Elf64_Phdr *phdr, size_t phnum);
/* Bytes of a whole file (mapped by the caller, kept while the image is used). */
int sframe_image_from_file(struct sframe_image *image, const void *file, size_t size);

/* Why parts of .eh_frame have no rows. */
enum sframe_uncovered {
	SFRAME_UNCOVERED_CFA_EXPRESSION = 0,	/* CFA by an expression that is no known pattern */
	SFRAME_UNCOVERED_CFA_REGISTER,		/* CFA from a register outside of DWARF 0 to 15 */
	SFRAME_UNCOVERED_NO_CFA,		/* no CFA rule at all */
	SFRAME_UNCOVERED_RA,			/* return address not at CFA-8, and not expressible */
	SFRAME_UNCOVERED_FP,			/* rbp by a rule that cannot be expressed */
	SFRAME_UNCOVERED_OFFSET,		/* offset out of 32 bits */
	SFRAME_UNCOVERED_BAD_CFI,		/* CFI that does not decode */
	SFRAME_UNCOVERED_BAD_RANGE,		/* function outside of the executable segments */
	SFRAME_UNCOVERED_OVERLAP,		/* claims bytes that another FDE has */
	SFRAME_UNCOVERED_COUNT,
};

const char *sframe_uncovered_name(int kind);

struct sframe_synth_stats {
	uint32_t functions;		/* FDEs read that cover code */
	uint32_t empty_fdes;		/* zero-length, skipped */
	uint32_t entries;		/* FDEs written */
	uint32_t rows;			/* rows written */
	uint32_t flex_entries;		/* of entries: flexible */
	uint32_t mask_entries;		/* of entries: repeating blocks (PLT) */
	uint64_t cfi_bytes;		/* bytes of text that .eh_frame covers */
	uint64_t covered_bytes;		/* of cfi_bytes: with rows */
	uint64_t padding_bytes;		/* alignment padding between neighbours that share an entry */
	uint64_t eh_frame_size;		/* bytes of .eh_frame and .eh_frame_hdr */
	uint64_t peak_memory;		/* bytes used while making it */
	uint32_t uncovered[SFRAME_UNCOVERED_COUNT];	/* rows (or FDEs) dropped, by kind */
	uint64_t uncovered_bytes[SFRAME_UNCOVERED_COUNT];
};

struct sframe_synth {
	size_t size;			/* sizeof(struct sframe_synth) */
	void *section;			/* owned; release with sframe_synth_release() */
	size_t section_size;
	size_t mapping_size;		/* private to the library */
	struct sframe_synth_stats stats;
};

/* -ENOENT: no .eh_frame; -ENOEXEC: it does not decode at all; -ENOMEM; -EINVAL. */
int sframe_synthesize(const struct sframe_image *image, struct sframe_synth *synth);
void sframe_synth_release(struct sframe_synth *synth);

/*
 * The cache: one file per build-id under $XDG_CACHE_HOME/sframe (else
 * ~/.cache/sframe). Files appear by rename, whole, are never changed, are
 * mapped read-only, and are used only if this user owns them and nobody else
 * may write them.
 */
struct sframe_cached {
	size_t size;			/* sizeof(struct sframe_cached) */
	const void *section;		/* owned; release with sframe_cache_release() */
	size_t section_size;
	size_t mapping_size;
	uint32_t from_cache;		/* 1: the file was there; 0: made now */
	int32_t cache_error;		/* why the cache was not used: -errno, or 0 */
	struct sframe_synth_stats stats;
};

/*
 * Map the cached section of @image, making it first if need be. When the cache
 * cannot be used the section is made in private memory and cache_error tells
 * why. Errors as sframe_synthesize().
 */
int sframe_cache_get(const struct sframe_image *image, struct sframe_cached *cached);
void sframe_cache_release(struct sframe_cached *cached);

/* The directory in use, or -errno (-ENOENT: neither variable is set; -ERANGE). */
int sframe_cache_directory(char *path, size_t size);

#ifdef __cplusplus
}
#endif
#endif
