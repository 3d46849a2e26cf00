// SPDX-License-Identifier: MIT
//
// .eh_frame as libdw understands it: the independent judge of `sframectl
// check`. Nothing here uses this project's own CFI code; libdw finds the FDE,
// runs its instructions and states rules as DWARF expressions, which are
// evaluated here over symbolic registers into SFrame's terms.
//
// Example:
//
//	LibdwCfi cfi;
//	std::string why;
//	if (!cfi.open(file, &why))
//		return complain("%s", why.c_str());
//	for (const LibdwCfi::Fde &fde : cfi.fdes())
//		for (uint64_t pc = fde.start; pc < fde.end;) {
//			LibdwCfi::Row row = cfi.row_at(pc);
//			...
//			pc = row.end;
//		}
#pragma once

#include <cstdint>
#include <string>
#include <vector>
#include <sframe/synth.h>
#include "elf_file.h"
#include "frame_rule.h"

class LibdwCfi {
public:
	struct Fde {
		uint64_t start, end;	// link-time addresses, half-open
		uint64_t offset;	// in .eh_frame
	};

	enum Verdict {
		EXPRESSIBLE,	// row says what holds
		NOT_EXPRESSIBLE,	// for the reason in kind
		UNJUDGED,	// libdw gives no answer
	};

	struct Row {
		uint64_t start, end;	// the row holds there; [pc, pc+1) if it depends on rip
		Verdict verdict;
		int kind;		// enum sframe_uncovered, with NOT_EXPRESSIBLE
		bool fp_undefined;	// the caller's FP is lost: any rule does for it
		sframe_decoded_row row;	// canonical, with EXPRESSIBLE
		std::string text;	// NOT_EXPRESSIBLE, UNJUDGED: what libdw said
	};

	LibdwCfi() = default;
	~LibdwCfi();
	LibdwCfi(const LibdwCfi &) = delete;
	LibdwCfi &operator=(const LibdwCfi &) = delete;

	// false: *why is a sentence for a person.
	bool open(const ElfFile &file, std::string *why);
	// By address. Empty ones are left out and counted.
	const std::vector<Fde> &fdes() const { return fdes_; }
	uint64_t empty_fdes() const { return empty_; }
	// Entries whose CIE, encoding or address could not be made out.
	uint64_t unreadable_fdes() const { return unreadable_; }
	// Bytes of .eh_frame and .eh_frame_hdr.
	uint64_t section_size() const { return section_size_; }
	// What libdw says of a PC. Where FDEs overlap it answers for one of them:
	// the range of the row shows which.
	Row row_at(uint64_t pc) const;

private:
	bool find_eh_frame(const ElfFile &file);
	bool find_eh_frame_by_segment(const ElfFile &file);
	void read_fdes(const ElfFile &file);
	bool read_fde(const Dwarf_CIE &cie, const Dwarf_FDE &entry, uint64_t offset);
	bool evaluate(Dwarf_Frame *frame, int ra_column, uint64_t pc, Row &row) const;

	Elf *elf_ = nullptr;
	Dwarf_CFI *cfi_ = nullptr;
	Bytes eh_frame_;
	uint64_t eh_frame_address_ = 0;
	uint64_t section_size_ = 0;
	uint64_t empty_ = 0, unreadable_ = 0;
	std::vector<Fde> fdes_;
};
