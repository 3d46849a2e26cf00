/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The SFrame stack trace format on disk, versions 2 and 3.
 *
 * Source: "The SFrame format" (info page sframe-spec of GNU binutils 2.47).
 * Section numbers in comments are those of that document.
 *
 * A section is a header, an index of function descriptor entries (FDE) sorted
 * by address, and a heap of frame row entries (FRE). A row says, from its
 * start address on, where the canonical frame address (CFA), the return
 * address (RA) and the caller's frame pointer (FP) are.
 *
 * Only constants and layouts live here; code that reads them is in
 * sframe_core.h. The file compiles in the kernel and in user space, as C and
 * as C++.
 */
#ifndef SFRAME_FORMAT_H
#define SFRAME_FORMAT_H

#ifdef __KERNEL__
#include <linux/stddef.h>
#include <linux/types.h>
#else
#include <stddef.h>
#include <stdint.h>
#endif

/* 2.1 Preamble. The magic number also tells the byte order. */
#define SFRAME_MAGIC		0xdee2u
#define SFRAME_MAGIC_SWAPPED	0xe2deu

#define SFRAME_VERSION_1	1	/* obsolete, never accepted */
#define SFRAME_VERSION_2	2
#define SFRAME_VERSION_3	3

/* 2.1.3 Flags of a whole section */
#define SFRAME_F_FDE_SORTED		0x1u
#define SFRAME_F_FRAME_POINTER		0x2u	/* version 2 only, of no use here */
#define SFRAME_F_FDE_FUNC_START_PCREL	0x4u

/* 2.2.1 ABI identifiers */
#define SFRAME_ABI_AARCH64_ENDIAN_BIG		1
#define SFRAME_ABI_AARCH64_ENDIAN_LITTLE	2
#define SFRAME_ABI_AMD64_ENDIAN_LITTLE		3
#define SFRAME_ABI_S390X_ENDIAN_BIG		4

/* 2.2 Header. fdeoff and freoff count from the end of the auxiliary header. */
struct sframe_header {
	uint16_t magic;
	uint8_t version;
	uint8_t flags;
	uint8_t abi_arch;
	int8_t cfa_fixed_fp_offset;
	int8_t cfa_fixed_ra_offset;
	uint8_t auxhdr_len;
	uint32_t num_fdes;
	uint32_t num_fres;
	uint32_t fre_len;
	uint32_t fdeoff;
	uint32_t freoff;
} __attribute__((packed));

#define SFRAME_HEADER_SIZE	28

/* 2.3.1 Version 3: the searchable index */
struct sframe_fde_v3 {
	int64_t func_start_offset;
	uint32_t func_size;
	uint32_t func_start_fre_off;
} __attribute__((packed));

#define SFRAME_FDE_V3_SIZE	16

/* 2.3.2 Version 3: the attributes, found in front of a function's rows */
struct sframe_fde_attr_v3 {
	uint16_t num_fres;
	uint8_t info;
	uint8_t info2;
	uint8_t rep_size;
} __attribute__((packed));

#define SFRAME_FDE_ATTR_V3_SIZE	5

/* Version 2: index and attributes in one entry */
struct sframe_fde_v2 {
	int32_t func_start_offset;
	uint32_t func_size;
	uint32_t func_start_fre_off;
	uint32_t num_fres;
	uint8_t info;
	uint8_t rep_size;
	uint16_t padding;
} __attribute__((packed));

#define SFRAME_FDE_V2_SIZE	20

/* 2.3.3 FDE info bytes */
#define SFRAME_FDE_INFO_FRE_TYPE(info)	((info) & 0xfu)
#define SFRAME_FDE_INFO_PCTYPE(info)	(((info) >> 4) & 1u)
#define SFRAME_FDE_INFO_PAUTH_KEY(info)	(((info) >> 5) & 1u)
#define SFRAME_FDE_INFO_SIGNAL(info)	(((info) >> 7) & 1u)	/* version 3 */
#define SFRAME_FDE_INFO2_TYPE(info2)	((info2) & 0x1fu)

#define SFRAME_FDE_PCTYPE_INC	0
#define SFRAME_FDE_PCTYPE_MASK	1

#define SFRAME_FDE_TYPE_DEFAULT	0
#define SFRAME_FDE_TYPE_FLEX	1

#define SFRAME_FRE_TYPE_ADDR1	0
#define SFRAME_FRE_TYPE_ADDR2	1
#define SFRAME_FRE_TYPE_ADDR4	2

/* 2.4.1 FRE info byte. Bit 0 set means that the CFA counts from SP. */
#define SFRAME_FRE_INFO_BASE_SP(info)		((info) & 1u)
#define SFRAME_FRE_INFO_DATAWORD_COUNT(info)	(((info) >> 1) & 0xfu)
#define SFRAME_FRE_INFO_DATAWORD_SIZE(info)	(((info) >> 5) & 3u)
#define SFRAME_FRE_INFO_MANGLED_RA(info)	(((info) >> 7) & 1u)

#define SFRAME_FRE_DATAWORD_1B	0
#define SFRAME_FRE_DATAWORD_2B	1
#define SFRAME_FRE_DATAWORD_4B	2

/* 3.2 Flexible FDEs: the control word of a (control, offset) pair */
#define SFRAME_FLEX_REG_P(ctl)		((ctl) & 1u)
#define SFRAME_FLEX_DEREF_P(ctl)	(((ctl) >> 1) & 1u)
#define SFRAME_FLEX_REGNUM(ctl)		((ctl) >> 3)
#define SFRAME_FLEX_CTL(reg, deref, reg_p) \
	(((uint32_t)(reg) << 3) | ((deref) ? 2u : 0u) | ((reg_p) ? 1u : 0u))

/* 3.1.3 s390x: CFA = base + word * 8 + 160; an RA word of 0 means "not saved" */
#define SFRAME_S390X_CFA_SCALE		8
#define SFRAME_S390X_CFA_BIAS		160
#define SFRAME_S390X_RA_NOT_SAVED	0

/* DWARF numbers of the registers that rules name */
#define SFRAME_AMD64_REG_FP	6
#define SFRAME_AMD64_REG_SP	7
#define SFRAME_AMD64_REG_RA	16
#define SFRAME_AARCH64_REG_FP	29
#define SFRAME_AARCH64_REG_LR	30
#define SFRAME_AARCH64_REG_SP	31
#define SFRAME_S390X_REG_FP	11
#define SFRAME_S390X_REG_RA	14
#define SFRAME_S390X_REG_SP	15

#endif /* SFRAME_FORMAT_H */
