// SPDX-License-Identifier: MIT
//
// Comparing a section with .eh_frame, PC by PC.
//
// Example:
//
//	SectionCheck result;
//	check_section(file, cfi, decoder, size, CheckOptions(), &result);
//	printf("%" PRIu64 " disagreements\n", result.disagreements);
#pragma once

#include <cstdint>
#include <string>
#include <vector>
#include <sframe/decode.h>
#include <sframe/synth.h>
#include "elf_file.h"
#include "libdw_cfi.h"

struct CheckOptions {
	bool every_byte = false;	// step by one byte, not by rows
	uint64_t max_findings = 20;	// described; the others only counted
};

// Counts of one file, or of several added up.
struct SectionCheck {
	uint64_t functions = 0;		// FDEs of .eh_frame that cover code
	uint64_t entries = 0;		// of the section
	uint64_t rows = 0;		// of the section
	uint64_t compared = 0;		// rows compared: intervals on which neither side changes
	uint64_t executable_bytes = 0;	// of executable segments
	uint64_t covered_bytes = 0;	// of those: with a row
	uint64_t cfi_bytes = 0;		// of code that .eh_frame covers
	uint64_t cfi_covered_bytes = 0;	// of those: with a row
	uint64_t expressible_bytes = 0;	// of those: that SFrame can express
	uint64_t padding_bytes = 0;	// with a row, outside of .eh_frame, and only padding
	uint64_t disagreements = 0;
	uint64_t missed = 0;		// ranges that could be expressed and have no row
	uint64_t missed_bytes = 0;
	uint64_t unjudged = 0;		// ranges on which libdw gives no answer
	uint64_t unjudged_bytes = 0;
	uint64_t unreadable_fdes = 0;
	uint64_t uncovered[SFRAME_UNCOVERED_COUNT] = {};	// ranges, by kind
	uint64_t uncovered_bytes[SFRAME_UNCOVERED_COUNT] = {};
	uint64_t section_size = 0;
	uint64_t eh_frame_size = 0;
	std::vector<std::string> findings;	// one line each

	void add(const SectionCheck &other);
	uint64_t uncovered_total() const;
	double ratio() const;
};

// Compares what @decoder says with what @cfi says of @file.
void check_section(const ElfFile &file, const LibdwCfi &cfi, const sframe_decoder *decoder,
		   size_t section_size, const CheckOptions &options, SectionCheck *result);
