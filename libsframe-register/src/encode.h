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
	// Rows of an entry, 12 to 32: what a reader goes through after the binary search.
	// With 20 lookups are as fast as in a section with an entry for each
	// function; with 32 the section is 2 % smaller and lookups 10 % slower.
	uint32_t max_rows = 20;
	// False: an entry per function, for comparison.
	bool pack = true;
};

class Encoder {
public:
	Encoder(const sframe_image &image, const RowStore &store, Meter &meter,
		sframe_synth_stats &stats, const EncodeOptions &options);

	// Hint: this function comes soon.
	void prefetch(const Function &function) const;
	// Functions in ascending order, without overlap. False without memory.
	bool add(const Function &function);
	bool finish();
	// The section's size, and the section written to out.
	uint64_t section_size() const;
	void write(unsigned char *out) const;

private:
	static constexpr uint32_t kWindow = 512;

	// A row in the window. A redundant one says what the row before it says:
	// it is written only where an entry begins with it.
	struct Node {
		uint64_t start;
		uint64_t previous_end;	// of a function's first row: end of the one before
		RuleId rule;
		uint32_t list;		// of a function's first row
		uint16_t whole_rows;	// of a function's first row: its rows, if none is missing
		uint8_t size;		// of the rule's bytes
		bool redundant;
		bool first;		// a function's first row
		bool cuttable;		// an entry may begin here
	};

	// The nodes at which the entry that ends here may best begin, cheapest
	// first, for addresses of one width. Each joins and leaves once.
	struct Candidates {
		uint32_t node[kWindow];
		int32_t cost[kWindow];	// without what depends on the end
		uint32_t head, tail;
	};

	// For the search of the cheapest cuts. Costs are in 1/16 bytes.
	struct Window {
		// Least cost up to a node, and where the entry that ends there begins.
		int32_t cost[kWindow + 1];
		uint32_t from[kWindow + 1];
		// Of the rows before a node: how many are written, and their bytes
		// without addresses.
		int32_t rows[kWindow + 1];
		int32_t bytes[kWindow + 1];
		// Offset in the window of the last row that is written before a node.
		uint64_t last[kWindow + 1];
		Candidates candidates[3];
	};

	struct IndexEntry {
		int64_t start;
		uint32_t size;
		uint32_t block;
	};

	bool add_row(const Function &function, const Row &row, uint64_t end, bool first);
	bool add_plt(uint64_t start, uint64_t end, const Rule &rule);
	bool gap_is_padding(uint64_t start, uint64_t end) const;
	bool flush();
	void prepare();
	void cut();
	void add_candidate(uint32_t from, unsigned int width);
	void best_end(uint32_t to, unsigned int width);
	void try_shared(uint32_t from);
	bool emit(uint32_t from, uint32_t to);
	bool emit_row(uint64_t start, uint64_t end, const Rule &rule);
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
	Array<Window> window_;
	Array<uint32_t> path_;
	uint64_t end_ = 0;	// of the last row in the window
};

} // namespace sframe
