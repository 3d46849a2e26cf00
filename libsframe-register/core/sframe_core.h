/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The SFrame core: one decoder for kernel and user space.
 *
 * Freestanding C, no allocation, no global state, bounded loops. It reads
 * memory only through what its includer supplies before including this file:
 *
 *	SFRAME_CORE_READ(io, dst, addr, len)	copy len bytes at addr to dst;
 *						0, or non-zero if unreadable
 *	SFRAME_CORE_REG(io, regno, &value)	value of a DWARF register in the
 *						topmost frame; 0, or non-zero if
 *						it is not known
 *	SFRAME_CORE_RMB()			optional: orders the read of a
 *						growing section's count before
 *						the reads of its entries
 *	SFRAME_CORE_FOREIGN			optional: 1 also decodes sections
 *						of the other byte order (tools)
 *
 * Example (user space, plain memory):
 *
 *	#define SFRAME_CORE_READ(io, dst, addr, len) \
 *		(memcpy(dst, (const void *)(addr), len), 0)
 *	#define SFRAME_CORE_REG(io, regno, value) (-1)
 *	#include "sframe_core.h"
 *
 *	struct sframe_section sec;
 *	struct sframe_frame frame = { .pc = pc, .sp = sp, .fp = fp, .exact = 1, .topmost = 1 };
 *
 *	if (sframe_section_parse(&sec, addr, size, func_base, 0, NULL) == SFRAME_OK)
 *		while (sframe_step(&sec, &frame, NULL) == SFRAME_OK)
 *			note(frame.pc);
 *
 * Bytes of a section are never trusted: they are copied, checked, then used,
 * and may change at any time between two reads. No input makes one lookup
 * longer than SFRAME_MAX_LOOKUP_READS reads.
 */
#ifndef SFRAME_CORE_H
#define SFRAME_CORE_H

#include "sframe_format.h"

#ifndef SFRAME_CORE_RMB
#define SFRAME_CORE_RMB() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#endif
#ifndef SFRAME_CORE_FOREIGN
#define SFRAME_CORE_FOREIGN 0
#endif

/*
 * What a call found. Callers decide by it, so every failure has its own code.
 * The values are part of the library's ABI (stop reasons, statistics).
 */
enum sframe_status {
	SFRAME_OK = 0,
	SFRAME_OUTERMOST,	/* no caller: the trace is complete */
	SFRAME_NOT_COVERED,	/* the section says nothing about this PC */
	SFRAME_CORRUPT,		/* bytes that no producer writes */
	SFRAME_UNREADABLE,	/* the section or the stack could not be read */
	SFRAME_UNSUPPORTED_REG,	/* a rule names a register that is not known here */
	SFRAME_NO_PROGRESS,	/* the caller's frame would not lie above this one */
	SFRAME_UNSUPPORTED_ABI,	/* decodes, but cannot be stepped on this machine */
	/* refusals of sframe_section_parse() */
	SFRAME_TOO_SHORT,	/* shorter than a header: as good as none */
	SFRAME_BAD_MAGIC,
	SFRAME_FOREIGN_ENDIAN,
	SFRAME_BAD_VERSION,	/* version 1, or unknown */
	SFRAME_BAD_FLAGS,	/* unknown, or contradicting what the caller said */
	SFRAME_BAD_ABI,
	SFRAME_BAD_EXTENT,	/* sub-sections outside of the section */
	SFRAME_UNSORTED,	/* no index to search */
	SFRAME_CONCATENATED,	/* a second header follows: a linker did not merge */
	SFRAME_STATUS_COUNT,
};

/*
 * A row as this code understands it: a start address, the info byte, at most
 * three (control, offset) pairs. Longer ones are SFRAME_CORRUPT.
 */
#define SFRAME_ROW_MAX_WORDS	6u
#define SFRAME_ROW_MAX_SIZE	(4u + 1u + SFRAME_ROW_MAX_WORDS * 4u)
#define SFRAME_MAX_ROWS		65535u

/*
 * Rows are read in blocks of this many bytes. A block is left for the next one
 * when fewer bytes remain than a row may have, and takes the last row along.
 */
#define SFRAME_ROW_BLOCK	160u
#define SFRAME_ROW_BLOCK_STEP	(SFRAME_ROW_BLOCK - 2 * SFRAME_ROW_MAX_SIZE)

/*
 * The most reads that sframe_lookup() makes: the count, a search of the index,
 * the entry, its attributes, the blocks of its rows. 32 rows as producers write
 * them take one or two blocks.
 */
#define SFRAME_MAX_LOOKUP_READS \
	(1u + 32u + 1u + 1u + 1u + SFRAME_MAX_ROWS * SFRAME_ROW_MAX_SIZE / SFRAME_ROW_BLOCK_STEP)

/* Options of sframe_section_parse() */
#define SFRAME_PARSE_GROWABLE	0x1u	/* entries may be appended: re-read the count */
#define SFRAME_PARSE_FUNC_BASE	0x2u	/* function offsets count from func_base */
#define SFRAME_PARSE_FOREIGN	0x4u	/* accept the other byte order (SFRAME_CORE_FOREIGN) */
#define SFRAME_PARSE_UNSORTED	0x8u	/* accept it for listing: no search is possible */

/* A checked header, ready for lookups. Plain data: copy it as you like. */
struct sframe_section {
	uint64_t addr;		/* of the header */
	uint64_t fde_addr;	/* of the index */
	uint64_t fre_addr;	/* of the rows */
	uint64_t base;		/* what function offsets count from, unless PC-relative */
	uint32_t num_fdes;
	uint32_t max_fdes;	/* room for this many (more than num_fdes if growable) */
	uint32_t fre_len;
	uint32_t num_fres;	/* as stated; never used for bounds */
	uint8_t version;
	uint8_t flags;
	uint8_t abi;
	uint8_t options;	/* SFRAME_PARSE_* */
	int8_t fixed_fp;
	int8_t fixed_ra;
	uint8_t swapped;
	uint8_t reserved;
};

/* One function descriptor entry, resolved. */
struct sframe_fde {
	uint64_t start;		/* address */
	uint32_t size;
	uint32_t num_rows;
	uint64_t row_addr;	/* of the first row */
	uint64_t row_end;	/* end of the row sub-section */
	uint8_t row_type;	/* SFRAME_FRE_TYPE_* */
	uint8_t pctype;
	uint8_t type;
	uint8_t signal;
	uint8_t rep_size;
	uint8_t pauth_key;
};

/* Where one value is: [*](base + offset) */
enum sframe_rule_base {
	SFRAME_RULE_NONE = 0,	/* unchanged: still in its register */
	SFRAME_RULE_CFA,
	SFRAME_RULE_REG,
};

struct sframe_rule {
	uint8_t base;		/* enum sframe_rule_base */
	uint8_t deref;
	uint16_t reg;		/* DWARF number, for SFRAME_RULE_REG */
	int32_t offset;
};

/* One row, decoded. [start, end) are offsets into the function or block. */
struct sframe_row {
	uint32_t start;
	uint32_t end;
	uint8_t outermost;
	uint8_t signal;
	uint8_t mangled_ra;
	uint8_t reserved;
	struct sframe_rule cfa;
	struct sframe_rule ra;
	struct sframe_rule fp;
};

/* A frame of the walk. exact: look up pc itself, not the call before it. */
struct sframe_frame {
	uint64_t pc;
	uint64_t sp;
	uint64_t fp;
	uint64_t sigctx;	/* address of the ucontext that pc was interrupted with, or 0 */
	uint8_t exact;
	uint8_t topmost;	/* SFRAME_CORE_REG() holds for this frame */
};

static inline const char *sframe_status_name(int status)
{
	switch (status) {
	case SFRAME_OK:
		return "ok";
	case SFRAME_OUTERMOST:
		return "outermost";
	case SFRAME_NOT_COVERED:
		return "not covered";
	case SFRAME_CORRUPT:
		return "corrupt";
	case SFRAME_UNREADABLE:
		return "unreadable";
	case SFRAME_UNSUPPORTED_REG:
		return "unsupported register";
	case SFRAME_NO_PROGRESS:
		return "no progress";
	case SFRAME_UNSUPPORTED_ABI:
		return "unsupported ABI";
	case SFRAME_TOO_SHORT:
		return "shorter than a header";
	case SFRAME_BAD_MAGIC:
		return "bad magic";
	case SFRAME_FOREIGN_ENDIAN:
		return "foreign endianness";
	case SFRAME_BAD_VERSION:
		return "unsupported version";
	case SFRAME_BAD_FLAGS:
		return "bad flags";
	case SFRAME_BAD_ABI:
		return "unknown ABI";
	case SFRAME_BAD_EXTENT:
		return "sub-section out of bounds";
	case SFRAME_UNSORTED:
		return "index not sorted";
	case SFRAME_CONCATENATED:
		return "several sections concatenated";
	}
	return "unknown";
}

/* The includer's accessors, as functions: an accessor may have no use for io. */
static inline int sframe_core_read(void *io, void *dst, uint64_t addr, uint64_t len)
{
	(void)io;
	return SFRAME_CORE_READ(io, dst, addr, len);
}

static inline int sframe_core_reg(void *io, unsigned int regno, uint64_t *value)
{
	(void)io;
	(void)regno;
	(void)value;
	return SFRAME_CORE_REG(io, regno, value);
}

/* Unaligned little helpers: the bytes are in a local copy already. */
static inline uint32_t sframe_get(const struct sframe_section *sec, const uint8_t *p,
				  unsigned int len)
{
	int swap = SFRAME_CORE_FOREIGN && sec->swapped;
	uint16_t v16;
	uint32_t v32;

	if (len == 1)
		return p[0];
	if (len == 2) {
		__builtin_memcpy(&v16, p, 2);
		return swap ? __builtin_bswap16(v16) : v16;
	}
	__builtin_memcpy(&v32, p, 4);
	return swap ? __builtin_bswap32(v32) : v32;
}

static inline int64_t sframe_get_s64(const struct sframe_section *sec, const uint8_t *p)
{
	uint64_t v;

	__builtin_memcpy(&v, p, 8);
	if (SFRAME_CORE_FOREIGN && sec->swapped)
		v = __builtin_bswap64(v);
	return (int64_t)v;
}

static inline int32_t sframe_get_signed(const struct sframe_section *sec, const uint8_t *p,
					unsigned int len)
{
	uint32_t v = sframe_get(sec, p, len);

	if (len == 1)
		return (int8_t)v;
	if (len == 2)
		return (int16_t)v;
	return (int32_t)v;
}

static inline uint32_t sframe_fde_entry_size(const struct sframe_section *sec)
{
	return sec->version == SFRAME_VERSION_3 ? SFRAME_FDE_V3_SIZE : SFRAME_FDE_V2_SIZE;
}

/*
 * True if another section's preamble stands right behind this one, or at the
 * next boundary a linker would align it to.
 */
static inline int sframe_second_header(const struct sframe_section *sec, uint64_t end,
				       uint64_t limit, void *io)
{
	uint64_t at[3];
	uint8_t b[4];
	int i;

	at[0] = end;
	at[1] = sec->addr + ((end - sec->addr + 3) & ~(uint64_t)3);
	at[2] = sec->addr + ((end - sec->addr + 7) & ~(uint64_t)7);
	for (i = 0; i < 3; i++) {
		if (at[i] > limit || limit - at[i] < SFRAME_HEADER_SIZE)
			continue;
		if (sframe_core_read(io, b, at[i], 4))
			continue;
		if (sframe_get(sec, b, 2) == SFRAME_MAGIC && b[2] >= SFRAME_VERSION_1 &&
		    b[2] <= SFRAME_VERSION_3)
			return 1;
	}
	return 0;
}

/* Byte order, version, flags and ABI: is this a section that the code below understands? */
static inline int sframe_header_check(const struct sframe_section *sec)
{
	uint32_t known = SFRAME_F_FDE_SORTED | SFRAME_F_FDE_FUNC_START_PCREL;
	int big = sec->swapped ^ (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);

	if (sec->version == SFRAME_VERSION_2)
		known |= SFRAME_F_FRAME_POINTER;
	else if (sec->version != SFRAME_VERSION_3)
		return SFRAME_BAD_VERSION;
	if (sec->flags & ~known)
		return SFRAME_BAD_FLAGS;
	if (sec->options & SFRAME_PARSE_FUNC_BASE && sec->flags & SFRAME_F_FDE_FUNC_START_PCREL)
		return SFRAME_BAD_FLAGS;

	switch (sec->abi) {
	case SFRAME_ABI_AMD64_ENDIAN_LITTLE:
		/* Rows do not track the return address: it must be in a fixed place. */
		return big || !sec->fixed_ra ? SFRAME_BAD_ABI : SFRAME_OK;
	case SFRAME_ABI_AARCH64_ENDIAN_LITTLE:
		return big ? SFRAME_BAD_ABI : SFRAME_OK;
	case SFRAME_ABI_AARCH64_ENDIAN_BIG:
	case SFRAME_ABI_S390X_ENDIAN_BIG:
		return big ? SFRAME_OK : SFRAME_BAD_ABI;
	}
	return SFRAME_BAD_ABI;
}

/* Where the sub-sections are; @body is where their offsets count from, relative to addr. */
static inline int sframe_header_extent(struct sframe_section *sec, const uint8_t *h, uint64_t size)
{
	uint64_t body = (uint64_t)SFRAME_HEADER_SIZE + h[7];
	uint64_t fdes = body + sframe_get(sec, h + 20, 4);
	uint64_t fres = body + sframe_get(sec, h + 24, 4);
	uint32_t entry = sframe_fde_entry_size(sec);

	sec->num_fdes = sframe_get(sec, h + 8, 4);
	sec->num_fres = sframe_get(sec, h + 12, 4);
	sec->fre_len = sframe_get(sec, h + 16, 4);
	/* Sums and products of 32-bit quantities: they cannot wrap in 64 bits. */
	if (fdes + (uint64_t)sec->num_fdes * entry > fres || fres + sec->fre_len > size)
		return SFRAME_BAD_EXTENT;
	sec->fde_addr = sec->addr + fdes;
	sec->fre_addr = sec->addr + fres;
	sec->max_fdes = sec->num_fdes;
	if (sec->options & SFRAME_PARSE_GROWABLE)
		sec->max_fdes = (uint32_t)(fres - fdes) / entry;
	return SFRAME_OK;
}

/**
 * sframe_section_parse() - check a section's header
 * @sec: filled on success
 * @addr: address of the section, as SFRAME_CORE_READ() understands it
 * @size: its size in bytes
 * @func_base: what function offsets count from, with SFRAME_PARSE_FUNC_BASE
 * @options: SFRAME_PARSE_*
 * @io: handed to SFRAME_CORE_READ()
 *
 * Return: SFRAME_OK, SFRAME_UNREADABLE, or the reason of the refusal. A
 * section without functions is legal and covers nothing.
 */
static inline int sframe_section_parse(struct sframe_section *sec, uint64_t addr, uint64_t size,
				       uint64_t func_base, unsigned int options, void *io)
{
	uint8_t h[SFRAME_HEADER_SIZE];
	uint32_t magic;
	int status;

	if (size < SFRAME_HEADER_SIZE)
		return SFRAME_TOO_SHORT;
	if (addr + size < addr)
		return SFRAME_BAD_EXTENT;
	if (sframe_core_read(io, h, addr, SFRAME_HEADER_SIZE))
		return SFRAME_UNREADABLE;

	__builtin_memset(sec, 0, sizeof(*sec));
	magic = sframe_get(sec, h, 2);
	if (magic == SFRAME_MAGIC_SWAPPED) {
		if (!SFRAME_CORE_FOREIGN || !(options & SFRAME_PARSE_FOREIGN))
			return SFRAME_FOREIGN_ENDIAN;
		sec->swapped = 1;
	} else if (magic != SFRAME_MAGIC) {
		return SFRAME_BAD_MAGIC;
	}
	sec->addr = addr;
	sec->base = options & SFRAME_PARSE_FUNC_BASE ? func_base : addr;
	sec->version = h[2];
	sec->flags = h[3];
	sec->abi = h[4];
	sec->options = (uint8_t)options;
	sec->fixed_fp = (int8_t)h[5];
	sec->fixed_ra = (int8_t)h[6];
	status = sframe_header_check(sec);
	if (status)
		return status;
	status = sframe_header_extent(sec, h, size);
	if (status)
		return status;

	/* Gas leaves the entries of an object file unsorted, linkers sort them. */
	if (!(sec->flags & SFRAME_F_FDE_SORTED) && !(options & SFRAME_PARSE_UNSORTED) &&
	    (sec->num_fdes > 1 || options & SFRAME_PARSE_GROWABLE))
		return SFRAME_UNSORTED;
	if (!(options & SFRAME_PARSE_GROWABLE) &&
	    sframe_second_header(sec, sec->fre_addr + sec->fre_len, addr + size, io))
		return SFRAME_CONCATENATED;
	return SFRAME_OK;
}

/* The number of entries that may be looked at now; it grows if the section does. */
static inline int sframe_count(const struct sframe_section *sec, uint32_t *count, void *io)
{
	uint8_t b[4];

	*count = sec->num_fdes;
	if (!(sec->options & SFRAME_PARSE_GROWABLE))
		return SFRAME_OK;
	if (sframe_core_read(io, b, sec->addr + offsetof(struct sframe_header, num_fdes), 4))
		return SFRAME_UNREADABLE;
	SFRAME_CORE_RMB();
	*count = sframe_get(sec, b, 4);
	if (*count > sec->max_fdes)
		return SFRAME_CORRUPT;
	return SFRAME_OK;
}

/* The function's address, from the first field of the entry at @at. */
static inline uint64_t sframe_start_decode(const struct sframe_section *sec, uint64_t at,
					   const uint8_t *b)
{
	int64_t offset;

	if (sec->version == SFRAME_VERSION_3)
		offset = sframe_get_s64(sec, b);
	else
		offset = (int32_t)sframe_get(sec, b, 4);
	return (sec->flags & SFRAME_F_FDE_FUNC_START_PCREL ? at : sec->base) + (uint64_t)offset;
}

/* Start address of entry @i, which the caller knows to be below the count. */
static inline int sframe_fde_start(const struct sframe_section *sec, uint32_t i, uint64_t *start,
				   void *io)
{
	uint64_t at = sec->fde_addr + (uint64_t)i * sframe_fde_entry_size(sec);
	uint8_t b[8];

	if (sec->version == SFRAME_VERSION_3 ? sframe_core_read(io, b, at, 8) :
					       sframe_core_read(io, b, at, 4))
		return SFRAME_UNREADABLE;
	*start = sframe_start_decode(sec, at, b);
	return SFRAME_OK;
}

/* Version 3: the attributes stand in front of the rows. */
static inline int sframe_fde_read_attr_v3(const struct sframe_section *sec,
					  struct sframe_fde *fde, uint32_t fre_off, uint8_t *info,
					  void *io)
{
	uint8_t a[SFRAME_FDE_ATTR_V3_SIZE];

	if (fre_off > sec->fre_len || sec->fre_len - fre_off < sizeof(a))
		return SFRAME_CORRUPT;
	if (sframe_core_read(io, a, sec->fre_addr + fre_off, sizeof(a)))
		return SFRAME_UNREADABLE;
	fde->num_rows = sframe_get(sec, a, 2);
	fde->type = SFRAME_FDE_INFO2_TYPE(a[3]);
	fde->rep_size = a[4];
	fde->signal = SFRAME_FDE_INFO_SIGNAL(a[2]);
	fde->row_addr = sec->fre_addr + fre_off + sizeof(a);
	*info = a[2];
	/* Bits that no producer of this version sets. */
	return a[2] & 0x40u || a[3] & ~0x1fu ? SFRAME_CORRUPT : SFRAME_OK;
}

/* Version 2: everything is in the entry. */
static inline int sframe_fde_read_attr_v2(const struct sframe_section *sec,
					  struct sframe_fde *fde, uint32_t fre_off,
					  const uint8_t *b, uint8_t *info)
{
	if (fre_off > sec->fre_len)
		return SFRAME_CORRUPT;
	fde->num_rows = sframe_get(sec, b + 12, 4);
	fde->type = SFRAME_FDE_TYPE_DEFAULT;
	fde->rep_size = b[17];
	fde->signal = 0;
	fde->row_addr = sec->fre_addr + fre_off;
	*info = b[16];
	return SFRAME_OK;
}

/* Entry @i, which the caller knows to be below the count. */
static inline int sframe_fde_read(const struct sframe_section *sec, uint32_t i,
				  struct sframe_fde *fde, void *io)
{
	uint32_t size = sframe_fde_entry_size(sec), fre_off;
	uint64_t at = sec->fde_addr + (uint64_t)i * size;
	uint8_t b[SFRAME_FDE_V2_SIZE], info = 0;
	int status;

	if (sframe_core_read(io, b, at, size))
		return SFRAME_UNREADABLE;
	fde->start = sframe_start_decode(sec, at, b);
	fde->row_end = sec->fre_addr + sec->fre_len;
	if (sec->version == SFRAME_VERSION_3) {
		fde->size = sframe_get(sec, b + 8, 4);
		fre_off = sframe_get(sec, b + 12, 4);
		status = sframe_fde_read_attr_v3(sec, fde, fre_off, &info, io);
	} else {
		fde->size = sframe_get(sec, b + 4, 4);
		fre_off = sframe_get(sec, b + 8, 4);
		status = sframe_fde_read_attr_v2(sec, fde, fre_off, b, &info);
	}
	if (status)
		return status;
	fde->row_type = SFRAME_FDE_INFO_FRE_TYPE(info);
	fde->pctype = SFRAME_FDE_INFO_PCTYPE(info);
	fde->pauth_key = SFRAME_FDE_INFO_PAUTH_KEY(info);

	if (fde->row_type > SFRAME_FRE_TYPE_ADDR4 || fde->type > SFRAME_FDE_TYPE_FLEX ||
	    fde->num_rows > SFRAME_MAX_ROWS ||
	    (fde->pctype == SFRAME_FDE_PCTYPE_MASK && fde->rep_size == 0))
		return SFRAME_CORRUPT;
	return SFRAME_OK;
}

/**
 * sframe_fde_get() - resolve an entry of the index
 * @sec: the section
 * @i: number of the entry
 * @fde: filled
 * @io: handed to the accessors
 *
 * Return: SFRAME_OK, SFRAME_NOT_COVERED past the last entry, SFRAME_CORRUPT,
 * SFRAME_UNREADABLE.
 */
static inline int sframe_fde_get(const struct sframe_section *sec, uint32_t i,
				 struct sframe_fde *fde, void *io)
{
	uint32_t count;
	int status;

	status = sframe_count(sec, &count, io);
	if (status)
		return status;
	if (i >= count)
		return SFRAME_NOT_COVERED;
	return sframe_fde_read(sec, i, fde, io);
}

/**
 * sframe_fde_find() - find the entry that covers a PC
 * @sec: the section
 * @pc: address
 * @fde: filled
 * @index: if not NULL, receives the entry's number
 * @io: handed to the accessors
 *
 * A binary search of at most 32 steps, whatever the bytes say.
 *
 * Return: SFRAME_OK, SFRAME_NOT_COVERED, SFRAME_CORRUPT, SFRAME_UNREADABLE.
 */
static inline int sframe_fde_find(const struct sframe_section *sec, uint64_t pc,
				  struct sframe_fde *fde, uint32_t *index, void *io)
{
	uint32_t lo = 0, hi, mid;
	uint64_t start;
	int status;

	status = sframe_count(sec, &hi, io);
	if (status)
		return status;
	/* Invariant: entries below lo start at or before pc, those from hi on after it. */
	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		status = sframe_fde_start(sec, mid, &start, io);
		if (status)
			return status;
		if (start <= pc)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == 0)
		return SFRAME_NOT_COVERED;
	status = sframe_fde_read(sec, lo - 1, fde, io);
	if (status)
		return status;
	/* The bytes may have changed since: never answer with another PC's entry. */
	if (pc < fde->start || pc - fde->start >= fde->size)
		return SFRAME_NOT_COVERED;
	if (index)
		*index = lo - 1;
	return SFRAME_OK;
}

/* Length of the row whose info byte this is. */
static inline int sframe_row_size(const struct sframe_fde *fde, uint8_t info, uint32_t *size)
{
	uint32_t word = SFRAME_FRE_INFO_DATAWORD_SIZE(info);
	uint32_t count = SFRAME_FRE_INFO_DATAWORD_COUNT(info);

	if (word > SFRAME_FRE_DATAWORD_4B || count > SFRAME_ROW_MAX_WORDS)
		return SFRAME_CORRUPT;
	*size = (1u << fde->row_type) + 1 + (count << word);
	return SFRAME_OK;
}

static inline void sframe_rule_set(struct sframe_rule *rule, unsigned int base, unsigned int reg,
				   int deref, int32_t offset)
{
	rule->base = (uint8_t)base;
	rule->reg = (uint16_t)reg;
	rule->deref = (uint8_t)deref;
	rule->offset = offset;
}

/* 3.1.3: CFA offsets are stored biased and scaled, in flexible rows too. */
static inline int sframe_s390x_cfa_offset(int32_t word, int32_t *offset)
{
	int64_t value = (int64_t)word * SFRAME_S390X_CFA_SCALE + SFRAME_S390X_CFA_BIAS;

	*offset = (int32_t)value;
	return *offset == value ? SFRAME_OK : SFRAME_CORRUPT;
}

/* 3.2: pairs of control and offset, a zero control word standing alone. */
static inline int sframe_row_flex(const struct sframe_section *sec, struct sframe_row *row,
				  const uint8_t *p, unsigned int count, unsigned int len)
{
	struct sframe_rule *rules[3];
	unsigned int i = 0, n;
	uint32_t ctl;

	rules[0] = &row->cfa;
	rules[1] = &row->ra;
	rules[2] = &row->fp;
	for (n = 0; n < 3 && i < count; n++) {
		ctl = sframe_get(sec, p + i * len, len);
		i++;
		if (ctl == 0) {
			if (n == 0)
				return SFRAME_CORRUPT;
			continue;
		}
		if (i >= count || ctl & 4u)
			return SFRAME_CORRUPT;
		if (n == 0 && !SFRAME_FLEX_REG_P(ctl))
			return SFRAME_CORRUPT;
		if (SFRAME_FLEX_REGNUM(ctl) > 0xffff)
			return SFRAME_CORRUPT;
		sframe_rule_set(rules[n],
				SFRAME_FLEX_REG_P(ctl) ? SFRAME_RULE_REG : SFRAME_RULE_CFA,
				SFRAME_FLEX_REG_P(ctl) ? SFRAME_FLEX_REGNUM(ctl) : 0,
				SFRAME_FLEX_DEREF_P(ctl),
				sframe_get_signed(sec, p + i * len, len));
		i++;
	}
	if (i != count)
		return SFRAME_CORRUPT;
	if (sec->abi == SFRAME_ABI_S390X_ENDIAN_BIG)
		return sframe_s390x_cfa_offset(row->cfa.offset, &row->cfa.offset);
	return SFRAME_OK;
}

/* 3.1: what the words of a default row mean depends on the ABI. */
static inline int sframe_row_default(const struct sframe_section *sec, struct sframe_row *row,
				     int base_sp, const uint8_t *p, unsigned int count,
				     unsigned int len)
{
	int32_t w[3] = { 0, 0, 0 };
	unsigned int i, sp, fp;

	if (count > 3)
		return SFRAME_CORRUPT;
	for (i = 0; i < count; i++)
		w[i] = sframe_get_signed(sec, p + i * len, len);

	switch (sec->abi) {
	case SFRAME_ABI_AMD64_ENDIAN_LITTLE:
		if (count > 2)
			return SFRAME_CORRUPT;
		sp = SFRAME_AMD64_REG_SP;
		fp = SFRAME_AMD64_REG_FP;
		if (count > 1)
			sframe_rule_set(&row->fp, SFRAME_RULE_CFA, 0, 1, w[1]);
		break;
	case SFRAME_ABI_S390X_ENDIAN_BIG:
		sp = SFRAME_S390X_REG_SP;
		fp = SFRAME_S390X_REG_FP;
		if (sframe_s390x_cfa_offset(w[0], &w[0]))
			return SFRAME_CORRUPT;
		/* Version 2 encoded "in a register" as an odd offset. */
		for (i = 1; i < count; i++) {
			struct sframe_rule *rule = i == 1 ? &row->ra : &row->fp;

			if (i == 1 && w[i] == SFRAME_S390X_RA_NOT_SAVED)
				continue;
			if (sec->version == SFRAME_VERSION_2 && (w[i] & 1))
				sframe_rule_set(rule, SFRAME_RULE_REG, (uint32_t)w[i] >> 1 & 0xffff,
						0, 0);
			else
				sframe_rule_set(rule, SFRAME_RULE_CFA, 0, 1, w[i]);
		}
		break;
	default:
		sp = SFRAME_AARCH64_REG_SP;
		fp = SFRAME_AARCH64_REG_FP;
		if (count > 1)
			sframe_rule_set(&row->ra, SFRAME_RULE_CFA, 0, 1, w[1]);
		if (count > 2)
			sframe_rule_set(&row->fp, SFRAME_RULE_CFA, 0, 1, w[2]);
		break;
	}
	sframe_rule_set(&row->cfa, SFRAME_RULE_REG, base_sp ? sp : fp, 0, w[0]);
	return SFRAME_OK;
}

/* Decode the row whose bytes (header and words) are at p. */
static inline int sframe_row_decode(const struct sframe_section *sec, const struct sframe_fde *fde,
				    const uint8_t *p, struct sframe_row *row)
{
	uint32_t alen = 1u << fde->row_type;
	uint8_t info = p[alen];
	unsigned int count = SFRAME_FRE_INFO_DATAWORD_COUNT(info);
	unsigned int len = 1u << SFRAME_FRE_INFO_DATAWORD_SIZE(info);
	int status;

	__builtin_memset(row, 0, sizeof(*row));
	row->start = sframe_get(sec, p, alen);
	row->signal = fde->signal;
	row->mangled_ra = SFRAME_FRE_INFO_MANGLED_RA(info);
	if (count == 0) {
		row->outermost = 1;
		return SFRAME_OK;
	}
	p += alen + 1;
	if (fde->type == SFRAME_FDE_TYPE_FLEX)
		status = sframe_row_flex(sec, row, p, count, len);
	else
		status = sframe_row_default(sec, row, SFRAME_FRE_INFO_BASE_SP(info), p, count, len);
	if (status)
		return status;
	/* Header-wide fixed slots stand in for what the row does not say. */
	if (row->ra.base == SFRAME_RULE_NONE && sec->fixed_ra)
		sframe_rule_set(&row->ra, SFRAME_RULE_CFA, 0, 1, sec->fixed_ra);
	if (row->fp.base == SFRAME_RULE_NONE && sec->fixed_fp)
		sframe_rule_set(&row->fp, SFRAME_RULE_CFA, 0, 1, sec->fixed_fp);
	return SFRAME_OK;
}

/**
 * sframe_row_next() - decode a function's rows one after the other
 * @sec: the section
 * @fde: the function
 * @cursor: address of the row, fde->row_addr to begin with; moved on
 * @row: its end is left 0 (it is the next row's start, or the function's size)
 * @io: handed to the accessors
 *
 * Return: SFRAME_OK, SFRAME_CORRUPT, SFRAME_UNREADABLE. The caller counts to
 * fde->num_rows.
 */
static inline int sframe_row_next(const struct sframe_section *sec, const struct sframe_fde *fde,
				  uint64_t *cursor, struct sframe_row *row, void *io)
{
	uint8_t b[SFRAME_ROW_MAX_SIZE];
	uint32_t head = (1u << fde->row_type) + 1, size;
	uint64_t left;
	int status;

	if (*cursor > fde->row_end)
		return SFRAME_CORRUPT;
	left = fde->row_end - *cursor;
	if (left > sizeof(b))
		left = sizeof(b);
	if (left < head)
		return SFRAME_CORRUPT;
	if (sframe_core_read(io, b, *cursor, left))
		return SFRAME_UNREADABLE;
	status = sframe_row_size(fde, b[head - 1], &size);
	if (status)
		return status;
	if (size > left)
		return SFRAME_CORRUPT;
	*cursor += size;
	return sframe_row_decode(sec, fde, b, row);
}

/* A block of rows. The row at pos comes next; the one at last holds so far. */
struct sframe_row_block {
	uint64_t next;		/* address behind bytes[have] */
	uint32_t have;
	uint32_t pos;
	uint32_t last;
	uint8_t bytes[SFRAME_ROW_BLOCK];
};

/* Read on. The row at last moves to the front, so that it is never read twice. */
static inline int sframe_row_block_fill(struct sframe_row_block *block, uint64_t end, void *io)
{
	uint32_t keep = block->have - block->last, len = SFRAME_ROW_BLOCK - keep;

	if (keep) {
		__builtin_memmove(block->bytes, block->bytes + block->last, keep);
		block->pos -= block->last;
		block->last = 0;
	}
	if (end - block->next < len)
		len = (uint32_t)(end - block->next);
	if (sframe_core_read(io, block->bytes + keep, block->next, len))
		return SFRAME_UNREADABLE;
	block->next += len;
	block->have = keep + len;
	return SFRAME_OK;
}

/*
 * Find the last row that starts at or before @off: block->last, if @found.
 * @alen: bytes of a row's start address, a constant at each call
 * @end: set to the start of the row behind it, if there is one
 */
static inline __attribute__((__always_inline__)) int
sframe_row_scan_width(const struct sframe_section *sec, const struct sframe_fde *fde,
		      uint32_t alen, uint32_t off, struct sframe_row_block *block, uint32_t *end,
		      int *found, void *io)
{
	uint32_t i = 0, size, start, safe, pos, last;
	int status;

	while (i < fde->num_rows) {
		if (block->have - block->pos < SFRAME_ROW_MAX_SIZE && block->next < fde->row_end) {
			status = sframe_row_block_fill(block, fde->row_end, io);
			if (status)
				return status;
		}
		/* Rows in front of this are whole, whatever their bytes say. */
		safe = block->have < SFRAME_ROW_MAX_SIZE ? 0 :
		       block->have - SFRAME_ROW_MAX_SIZE + 1;
		pos = block->pos;
		last = block->last;
		do {
			if (pos >= safe && block->have - pos < alen + 1)
				return SFRAME_CORRUPT;
			start = sframe_get(sec, block->bytes + pos, alen);
			if (start > off) {
				block->last = last;
				*found = i > 0;
				*end = start;
				return SFRAME_OK;
			}
			status = sframe_row_size(fde, block->bytes[pos + alen], &size);
			if (status)
				return status;
			if (pos >= safe && block->have - pos < size)
				return SFRAME_CORRUPT;
			last = pos;
			pos += size;
			i++;
		} while (i < fde->num_rows && pos < safe);
		block->pos = pos;
		block->last = last;
	}
	*found = i > 0;
	return SFRAME_OK;
}

/* The search is the unwinder's cold path: one loop for each width is twice as fast. */
static inline int sframe_row_scan(const struct sframe_section *sec, const struct sframe_fde *fde,
				  uint32_t off, struct sframe_row_block *block, uint32_t *end,
				  int *found, void *io)
{
	switch (fde->row_type) {
	case SFRAME_FRE_TYPE_ADDR1:
		return sframe_row_scan_width(sec, fde, 1, off, block, end, found, io);
	case SFRAME_FRE_TYPE_ADDR2:
		return sframe_row_scan_width(sec, fde, 2, off, block, end, found, io);
	}
	return sframe_row_scan_width(sec, fde, 4, off, block, end, found, io);
}

/*
 * Version 3 marks a function that has no caller by leaving out all rows. Not so
 * for a signal frame: that has what it interrupted, and gas leaves its rows out
 * when it could not express them (2.47: any expression in its CFI).
 */
static inline int sframe_row_none(const struct sframe_section *sec, const struct sframe_fde *fde,
				  struct sframe_row *row)
{
	if (sec->version != SFRAME_VERSION_3 || fde->type != SFRAME_FDE_TYPE_DEFAULT ||
	    fde->signal)
		return SFRAME_NOT_COVERED;
	__builtin_memset(row, 0, sizeof(*row));
	row->outermost = 1;
	return SFRAME_OK;
}

/**
 * sframe_row_find() - find the row that holds at a PC
 * @sec: the section
 * @fde: the function, which covers @pc
 * @pc: address
 * @row: filled
 * @io: handed to the accessors
 *
 * Each byte is read once: what was checked is what is decoded.
 *
 * Return: SFRAME_OK, SFRAME_NOT_COVERED, SFRAME_CORRUPT, SFRAME_UNREADABLE.
 */
static inline int sframe_row_find(const struct sframe_section *sec, const struct sframe_fde *fde,
				  uint64_t pc, struct sframe_row *row, void *io)
{
	struct sframe_row_block block;
	uint32_t off, limit = fde->size, end;
	int status, found;

	if (pc - fde->start >= fde->size)
		return SFRAME_NOT_COVERED;
	off = (uint32_t)(pc - fde->start);
	if (fde->pctype == SFRAME_FDE_PCTYPE_MASK) {
		limit = fde->rep_size;
		off %= limit;
	}
	end = limit;
	if (fde->num_rows == 0) {
		status = sframe_row_none(sec, fde, row);
	} else {
		block.next = fde->row_addr;
		block.have = 0;
		block.pos = 0;
		block.last = 0;
		status = sframe_row_scan(sec, fde, off, &block, &end, &found, io);
		if (!status)
			status = !found ? SFRAME_NOT_COVERED :
				 sframe_row_decode(sec, fde, block.bytes + block.last, row);
	}
	if (!status)
		row->end = end < limit ? end : limit;
	return status;
}

/* Find the row of @pc in @sec. Returns as sframe_fde_find() and sframe_row_find(). */
static inline int sframe_lookup(const struct sframe_section *sec, uint64_t pc,
				struct sframe_row *row, void *io)
{
	struct sframe_fde fde;
	int status;

	status = sframe_fde_find(sec, pc, &fde, NULL, io);
	if (status)
		return status;
	return sframe_row_find(sec, &fde, pc, row, io);
}

/*
 * x86-64 signal frames. At the restorer's first instruction SP is the address
 * of the ucontext; general registers are at these offsets in it (kernel:
 * arch/x86/include/uapi/asm/sigcontext.h), by DWARF number.
 */
static inline int sframe_amd64_sigctx_offset(unsigned int reg, unsigned int *offset)
{
	static const uint8_t at[17] = {
		144, 136, 152, 128, 112, 104, 120, 160,	/* rax rdx rcx rbx rsi rdi rbp rsp */
		40, 48, 56, 64, 72, 80, 88, 96, 168,	/* r8 to r15, rip */
	};

	if (reg > 16)
		return SFRAME_UNSUPPORTED_REG;
	*offset = at[reg];
	return SFRAME_OK;
}

/* Value of a register in @frame, where it is known. */
static inline int sframe_frame_reg(const struct sframe_frame *frame, unsigned int reg,
				   uint64_t *value, void *io)
{
	unsigned int offset;

	if (reg == SFRAME_AMD64_REG_SP) {
		*value = frame->sp;
		return SFRAME_OK;
	}
	if (reg == SFRAME_AMD64_REG_FP) {
		*value = frame->fp;
		return SFRAME_OK;
	}
	if (frame->sigctx) {
		if (sframe_amd64_sigctx_offset(reg, &offset))
			return SFRAME_UNSUPPORTED_REG;
		if (sframe_core_read(io, value, frame->sigctx + offset, 8))
			return SFRAME_UNREADABLE;
		return SFRAME_OK;
	}
	if (frame->topmost && reg <= SFRAME_AMD64_REG_RA && !sframe_core_reg(io, reg, value))
		return SFRAME_OK;
	return SFRAME_UNSUPPORTED_REG;
}

static inline int sframe_rule_apply(const struct sframe_rule *rule, uint64_t cfa,
				    const struct sframe_frame *frame, uint64_t *value, void *io)
{
	uint64_t base = cfa;
	int status;

	if (rule->base == SFRAME_RULE_REG) {
		status = sframe_frame_reg(frame, rule->reg, &base, io);
		if (status)
			return status;
	}
	base += (uint64_t)(int64_t)rule->offset;
	if (!rule->deref) {
		*value = base;
		return SFRAME_OK;
	}
	return sframe_core_read(io, value, base, 8) ? SFRAME_UNREADABLE : SFRAME_OK;
}

/*
 * Where a frame was realigned, gcc's CFI finds the saved rbp by rbp itself, and
 * still says so behind the `leave` that has restored it. But a slot of a frame
 * lies between its sp and its CFA: if it would not, rbp is the caller's already.
 */
static inline int sframe_fp_is_callers(const struct sframe_row *row,
				       const struct sframe_frame *frame, uint64_t cfa)
{
	uint64_t slot = frame->fp + (uint64_t)(int64_t)row->fp.offset;

	return !row->signal && row->fp.base == SFRAME_RULE_REG &&
	       row->fp.reg == SFRAME_AMD64_REG_FP && row->fp.deref &&
	       slot - frame->sp >= cfa - frame->sp;
}

/**
 * sframe_row_apply() - compute the caller's frame from a row
 * @row: of frame's PC (x86-64)
 * @frame: replaced by the caller's on SFRAME_OK, unchanged otherwise
 * @io: handed to the accessors
 *
 * Return: SFRAME_OK, SFRAME_OUTERMOST, SFRAME_UNREADABLE,
 * SFRAME_UNSUPPORTED_REG, SFRAME_NO_PROGRESS, SFRAME_CORRUPT.
 */
static inline int sframe_row_apply(const struct sframe_row *row, struct sframe_frame *frame,
				   void *io)
{
	struct sframe_frame next;
	int status;

	if (row->outermost)
		return SFRAME_OUTERMOST;
	__builtin_memset(&next, 0, sizeof(next));
	if (row->ra.base == SFRAME_RULE_NONE)
		return SFRAME_CORRUPT;
	status = sframe_rule_apply(&row->cfa, 0, frame, &next.sp, io);
	if (status)
		return status;
	/*
	 * The stack grows down: a caller's frame lies above, unless a signal
	 * switched stacks. Where execution is, code may have popped its return
	 * address into a register (vfork does): then both are equal, once.
	 */
	if (!row->signal && (next.sp < frame->sp || (next.sp == frame->sp && !frame->exact)))
		return SFRAME_NO_PROGRESS;
	status = sframe_rule_apply(&row->ra, next.sp, frame, &next.pc, io);
	if (status)
		return status;
	next.fp = frame->fp;
	if (row->fp.base != SFRAME_RULE_NONE && !sframe_fp_is_callers(row, frame, next.sp)) {
		status = sframe_rule_apply(&row->fp, next.sp, frame, &next.fp, io);
		if (status)
			return status;
	}
	if (row->signal) {
		next.exact = 1;
		/* Only the kernel's own layout says where the other registers are. */
		if (row->cfa.base == SFRAME_RULE_REG && row->cfa.reg == SFRAME_AMD64_REG_SP &&
		    row->cfa.deref && row->cfa.offset == 160 &&
		    row->ra.base == SFRAME_RULE_REG && row->ra.reg == SFRAME_AMD64_REG_SP &&
		    row->ra.deref && row->ra.offset == 168)
			next.sigctx = frame->sp;
	}
	*frame = next;
	return SFRAME_OK;
}

/* The PC to look up for a frame: a return address may lie behind its function's end. */
static inline uint64_t sframe_frame_lookup_pc(const struct sframe_frame *frame)
{
	return frame->exact ? frame->pc : frame->pc - 1;
}

/**
 * sframe_step() - go from a frame to its caller's
 * @sec: the section that covers the frame's PC
 * @frame: replaced by the caller's on SFRAME_OK, unchanged otherwise
 * @io: handed to the accessors
 *
 * Return: as sframe_lookup() and sframe_row_apply(); SFRAME_UNSUPPORTED_ABI if
 * the section is of another machine.
 */
static inline int sframe_step(const struct sframe_section *sec, struct sframe_frame *frame,
			      void *io)
{
	struct sframe_row row;
	int status;

	if (sec->abi != SFRAME_ABI_AMD64_ENDIAN_LITTLE || sec->swapped)
		return SFRAME_UNSUPPORTED_ABI;
	status = sframe_lookup(sec, sframe_frame_lookup_pc(frame), &row, io);
	if (status)
		return status;
	return sframe_row_apply(&row, frame, io);
}

#endif /* SFRAME_CORE_H */
