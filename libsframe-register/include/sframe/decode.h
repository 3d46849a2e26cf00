/* SPDX-License-Identifier: MIT */
/*
 * Reading SFrame sections, for tools.
 *
 * Example: print where each function's rows begin.
 *
 *	struct sframe_decoder *dec;
 *	int err = sframe_decoder_new(&dec, bytes, size, link_address, 0, NULL);
 *	struct sframe_function fn;
 *	for (uint32_t i = 0; !err && sframe_decoder_function(dec, i, &fn) == 0; i++) {
 *		struct sframe_decoded_row row;
 *		uint64_t cursor = 0;
 *		while (sframe_decoder_row(dec, &fn, &cursor, &row) == 1)
 *			printf("%#lx\n", fn.start + row.start);
 *	}
 *	sframe_decoder_free(dec);
 *
 * Built on the core, so what a tool shows is what an unwinder sees. Sections
 * of the other byte order (s390x on x86) are decoded too. A decoder may be
 * used by one thread at a time.
 */
#ifndef SFRAME_DECODE_H
#define SFRAME_DECODE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sframe_decoder;

/* The status words of the core (enum sframe_status), as text. */
const char *sframe_decode_status_name(int status);

struct sframe_section_info {
	uint8_t version, flags, abi, auxhdr_len;
	int8_t fixed_fp, fixed_ra;
	uint8_t swapped, reserved;
	uint32_t num_fdes, num_fres, fre_len, fdeoff, freoff;
};

struct sframe_function {
	uint64_t start;			/* address */
	uint32_t size;
	uint32_t num_rows;
	uint8_t row_type;		/* bytes of a row's start address: 1, 2, 4 */
	uint8_t pctype;			/* 0 INC, 1 MASK */
	uint8_t type;			/* 0 default, 1 flexible */
	uint8_t signal;
	uint8_t rep_size;
	uint8_t pauth_key;
	uint16_t reserved;
	uint64_t private_[2];
};

enum sframe_decoded_base { SFRAME_BASE_NONE = 0, SFRAME_BASE_CFA, SFRAME_BASE_REG };

struct sframe_decoded_rule {
	uint8_t base;			/* enum sframe_decoded_base */
	uint8_t deref;			/* 1: the value is in memory at base + offset */
	uint16_t reg;			/* DWARF number */
	int32_t offset;
};

struct sframe_decoded_row {
	uint32_t start, end;		/* offsets in the function (or repeating block) */
	uint8_t outermost, signal, mangled_ra, reserved;
	struct sframe_decoded_rule cfa, ra, fp;
};

#define SFRAME_DECODE_FUNC_BASE	0x1u	/* offsets count from @address, not from the section */
#define SFRAME_DECODE_UNSORTED	0x2u	/* accept an object file's unsorted index (slow to search) */

/*
 * @address: link-time address of the section, or with SFRAME_DECODE_FUNC_BASE
 * what function offsets count from. @bytes must stay while the decoder lives.
 * Returns 0, -EINVAL (unknown flags), -ENOMEM, or -EBADMSG with the reason in
 * *@why (may be NULL).
 */
int sframe_decoder_new(struct sframe_decoder **dec, const void *bytes, size_t size,
		       uint64_t address, unsigned int flags, int *why);
void sframe_decoder_free(struct sframe_decoder *dec);
void sframe_decoder_info(const struct sframe_decoder *dec, struct sframe_section_info *info);
/* 0; -ENOENT past the end; -EBADMSG a damaged entry. */
int sframe_decoder_function(const struct sframe_decoder *dec, uint32_t index,
			    struct sframe_function *fn);
/* The function that covers @pc: 0, -ENOENT, -EBADMSG. */
int sframe_decoder_find(const struct sframe_decoder *dec, uint64_t pc, struct sframe_function *fn);
/*
 * The next row: 1, 0 at the end, -EBADMSG. Begin with *cursor = 0. A function
 * marked outermost by having no rows gives one row that says so.
 */
int sframe_decoder_row(const struct sframe_decoder *dec, const struct sframe_function *fn,
		       uint64_t *cursor, struct sframe_decoded_row *row);
/* The row that holds at @pc, as an unwinder finds it: 0, -ENOENT, -EBADMSG. */
int sframe_decoder_lookup(const struct sframe_decoder *dec, uint64_t pc,
			  struct sframe_decoded_row *row);

#ifdef __cplusplus
}
#endif
#endif
