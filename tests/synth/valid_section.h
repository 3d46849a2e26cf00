// SPDX-License-Identifier: MIT
//
// What holds for every section that synthesis makes, whatever it was made of.
// For tests and fuzzers.
#pragma once

#include <sframe/decode.h>
#include <sframe/synth.h>

// Reads every entry and row and finds each row again by address. What is wrong,
// or nullptr.
inline const char *section_fault(const sframe_synth &synth)
{
	const sframe_synth_stats &stats = synth.stats;
	sframe_decoder *decoder;
	sframe_function fn, found;
	const char *fault = nullptr;
	uint64_t end = 0, covered = 0, uncovered = 0;

	if (sframe_decoder_new(&decoder, synth.section, synth.section_size, 0, SFRAME_DECODE_FUNC_BASE,
			       nullptr))
		return "the section does not parse";
	for (uint32_t i = 0; !fault && i < stats.entries; i++) {
		sframe_decoded_row row, again;
		uint64_t cursor = 0;
		uint32_t rows = 0;
		int more;

		if (sframe_decoder_function(decoder, i, &fn)) {
			fault = "an entry does not decode";
			break;
		}
		if (fn.start < end || fn.size == 0)
			fault = "entries overlap or are empty";
		if (sframe_decoder_find(decoder, fn.start, &found) || found.start != fn.start)
			fault = "an entry is not found by its address";
		end = fn.start + fn.size;
		covered += fn.size;
		while ((more = sframe_decoder_row(decoder, &fn, &cursor, &row)) == 1) {
			rows++;
			if (fn.pctype == 0 && row.start >= fn.size)
				fault = "a row begins behind its entry's end";
			else if (fn.pctype == 0 &&
				 (sframe_decoder_lookup(decoder, fn.start + row.start, &again) ||
				  again.start != row.start || again.cfa.offset != row.cfa.offset))
				fault = "a row is not found by its address";
		}
		if (more < 0 || rows != fn.num_rows || rows == 0 || rows > 32)
			fault = "rows do not decode, or are too many";
	}
	if (!fault && sframe_decoder_function(decoder, stats.entries, &fn) == 0)
		fault = "more entries than counted";
	for (uint64_t bytes : stats.uncovered_bytes)
		uncovered += bytes;
	if (!fault && stats.covered_bytes + uncovered != stats.cfi_bytes)
		fault = "covered and uncovered bytes do not add up";
	if (!fault && covered != stats.covered_bytes + stats.padding_bytes)
		fault = "entries cover other bytes than counted";
	sframe_decoder_free(decoder);
	return fault;
}
