// SPDX-License-Identifier: MIT
//
// The entries of an .eh_frame section (LSB, "Exception Frames"). A common
// information entry (CIE) holds what functions share; a frame description
// entry (FDE) names a function and points back to its CIE. Both carry a
// program of call frame instructions, which cfi.h evaluates.
#pragma once

#include <cstdint>
#include <sframe/synth.h>
#include "arena.h"
#include "eh_pointer.h"
#include "reader.h"

namespace sframe {

struct Cie {
	uint32_t offset;	// of its length field in the section
	uint8_t fde_encoding;	// DW_EH_PE_* of its FDEs' addresses
	bool sized;		// augmentation "z": FDEs have augmentation data
	bool signal;		// augmentation "S": frames that a signal interrupted
	bool wide_id;		// 64-bit entry whose CIE id takes 8 bytes, not 4
	bool valid;		// false: cannot be understood, nor can its FDEs
	uint64_t code_align;
	int64_t data_align;
	uint64_t ra_register;
	const unsigned char *program;
	uint64_t program_size;
};

struct Fde {
	uint32_t cie;		// index
	uint32_t offset;	// of its length field in the section
	uint64_t start;		// link-time address
	uint64_t size;
	const unsigned char *program;
	uint64_t program_size;
	uint64_t program_vaddr;
};

enum class Entry { kEnd, kCie, kFde, kBadFde, kNoMemory };

// Goes through a section once, front to back. An FDE may only name a CIE that
// was met before it, so there are no cycles. The end is the zero terminator,
// the end of the segment, or the first entry that does not fit in it.
class EhFrame {
public:
	EhFrame(const sframe_image &image, Meter &meter);

	bool empty() const { return size_ == 0; }
	const unsigned char *bytes() const { return bytes_; }
	// No more bytes than this belong to the section.
	uint64_t size() const { return size_; }
	// The next entry; fde is filled for kFde. A CIE is cies().back().
	Entry next(Fde *fde);
	const Array<Cie> &cies() const { return cies_; }
	// Bytes of the section so far, the terminator included.
	uint64_t extent() const { return position_; }
	const PointerBase &base() const { return base_; }

private:
	struct Head {
		uint64_t start;		// offset of the entry
		uint64_t id_at;		// offset of the CIE id
		uint64_t end;
		bool extended;
	};

	bool next_head(Head *head);
	Cie read_cie(const Head &head) const;
	bool read_augmentation(Reader &body, const char *letters, Cie *cie) const;
	bool read_fde(const Head &head, uint32_t id, Fde *fde);
	int64_t find_cie(uint64_t offset) const;
	uint64_t vaddr_of(const unsigned char *p) const
	{
		return vaddr_ + static_cast<uint64_t>(p - bytes_);
	}

	PointerBase base_;
	const unsigned char *bytes_ = nullptr;
	uint64_t vaddr_ = 0;
	uint64_t size_ = 0;
	uint64_t position_ = 0;
	uint64_t expected_fdes_ = 0;	// as .eh_frame_hdr counts them
	uint64_t seen_fdes_ = 0;
	Array<Cie> cies_;
	size_t last_cie_ = 0;
};

} // namespace sframe
