// SPDX-License-Identifier: MIT
//
// Writing functions and their rows as a compact version 3 section.
//
// An entry of the index need not be a function: neighbours share one, which
// saves an index entry and attributes each, and rows that say what the row
// before them says are not written again. Equal blocks of rows are written
// once. Where to cut is decided by least total size over a window.
#pragma once

#include <cstdint>
#include "arena.h"
#include "rows.h"

namespace sframe {

struct Function {
	uint64_t start;		// link-time address
	uint32_t size;
	uint32_t list;		// RowStore
};

struct EncodeOptions {
	// Rows of an entry: what a reader goes through after the binary search.
	uint32_t max_rows = 32;
	// False: an entry per function, for comparison.
	bool pack = true;
};

class Encoder {
public:
	Encoder(const sframe_image &image, const RowStore &store, Meter &meter,
		sframe_synth_stats &stats, const EncodeOptions &options);

	// Functions in ascending order, without overlap. False without memory.
	bool add(const Function &function);
	bool finish();
	// The section's size, and the section written to out.
	uint64_t section_size() const;
	void write(unsigned char *out) const;

private:
	// A row in the window. A redundant one is written only at an entry's start.
	struct Node {
		uint64_t start;
		uint64_t previous_end;	// of a function's first row: end of the one before
		RuleId rule;
		uint32_t list;		// of a function's first row
		uint16_t rows;		// of a function's first row: its rows, if it is whole
		uint8_t size;		// of the rule's bytes
		bool redundant;
		bool first;		// a function's first row
	};
	struct Cut {
		uint32_t cost;
		uint32_t from;
	};
	struct IndexEntry {
		int64_t start;
		uint32_t size;
		uint32_t block;
	};

	static constexpr uint32_t kWindow = 2048;

	bool add_row(const Function &function, const Row &row, uint64_t end, bool first,
		     uint32_t whole_rows);
	bool add_plt(uint64_t start, uint64_t end, const Rule &rule);
	bool gap_is_padding(uint64_t start, uint64_t end) const;
	bool flush();
	void cut();
	void relax(uint32_t from);
	uint32_t shared_cost(const Node &node, uint32_t count) const;
	bool emit(uint32_t from, uint32_t to);
	bool emit_simple(uint64_t start, uint64_t end, uint64_t origin, const Row *rows,
			 uint32_t count);
	bool emit_block(uint64_t start, uint64_t end, const unsigned char *block, uint32_t size,
			uint32_t rows);

	const sframe_image &image_;
	const RowStore &store_;
	sframe_synth_stats &stats_;
	const EncodeOptions options_;
	Array<IndexEntry> index_;
	Array<unsigned char> heap_;
	IndexTable blocks_;
	Array<Node> nodes_;
	Array<Cut> cuts_;
	Array<uint32_t> path_;
	uint64_t end_ = 0;	// of the last row in the window
};

} // namespace sframe
