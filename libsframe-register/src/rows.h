// SPDX-License-Identifier: MIT
//
// From CFI to SFrame rows. Rules (what a row says) and row lists (what an FDE
// says) repeat a lot within an object: each is kept once and named by number.
#pragma once

#include <cstdint>
#include "arena.h"
#include "cfi.h"

namespace sframe {

// What a row says, as it is written: the info byte and the data words.
struct Rule {
	enum : uint8_t {
		kFlexible = 1,	// needs an entry of the flexible type
		kSignal = 2,	// needs an entry with the signal bit
		kPlt = 4,	// stands for the two rules low and high in turns
	};

	uint8_t kind;
	uint8_t size;
	uint8_t mask;		// kPlt: the block's size, less one
	uint8_t threshold;	// kPlt: high applies from here in each block
	uint32_t low, high;	// kPlt
	unsigned char bytes[28];

	// Rows can share an entry if this is equal.
	uint8_t entry_kind() const { return kind & (kFlexible | kSignal); }
};

// Numbers below kFirstRule stand for a hole of that kind (enum sframe_uncovered).
using RuleId = uint32_t;
inline constexpr RuleId kFirstRule = SFRAME_UNCOVERED_COUNT;

inline bool is_hole(RuleId rule) { return rule < kFirstRule; }

struct Row {
	uint32_t start;	// offset in the function
	RuleId rule;
};

struct RowList {
	uint32_t first;	// index of the first row
	uint32_t count;	// at least 1
	uint32_t uses;	// how many functions have it
	uint32_t last_start;
	// As a block of its own: attributes and rows. 0 if rows need several entries.
	uint32_t block_size;
};

class Rules {
public:
	explicit Rules(Meter &meter) : rules_(meter), table_(meter) {}

	const Rule &operator[](RuleId id) const { return rules_[id - kFirstRule]; }
	// The rule of a state, or the hole it makes. False without memory.
	bool classify(const CfiState &state, bool signal, RuleId *id);
	void release()
	{
		rules_.release();
		table_.release();
	}

private:
	bool intern(const Rule &rule, RuleId *id);
	bool intern_plt(const CfiState &state, bool signal, RuleId *id);

	struct Recent {
		uint64_t key;
		RuleId id;
	};

	static constexpr unsigned int kRecent = 64;

	Array<Rule> rules_;
	IndexTable table_;
	Recent recent_[kRecent] = {};
};

class RowStore {
public:
	explicit RowStore(Meter &meter)
		: rules_(meter), rows_(meter), lists_(meter), programs_(meter), by_rows_(meter),
		  by_program_(meter), states_(meter)
	{
	}

	// The rows of an FDE as the number of a list. False without memory.
	bool add(const EhFrame &eh_frame, const Fde &fde, uint32_t *list);

	Rules &rules() { return rules_; }
	const Rules &rules() const { return rules_; }
	RowList &list(uint32_t i) { return lists_[i]; }
	const RowList &list(uint32_t i) const { return lists_[i]; }
	const Row *rows(const RowList &list) const { return &rows_[list.first]; }
	// Drops what only add() needs.
	void finish()
	{
		programs_.release();
		by_rows_.release();
		by_program_.release();
		states_.release();
	}
	void release()
	{
		finish();
		rules_.release();
		rows_.release();
		lists_.release();
	}

private:
	// A CIE's initial state and whether it could be had.
	struct Initial {
		CfiState state;
		bool known;
		bool valid;
	};
	// A program that was met before: the same bytes under the same CIE.
	struct Program {
		uint32_t offset;	// in the section
		uint32_t size;
		uint32_t cie;
		uint32_t list;
	};

	bool initial(const EhFrame &eh_frame, uint32_t cie, const Initial **state);
	bool evaluate(const EhFrame &eh_frame, const Fde &fde, uint32_t *list, bool *absolute);
	bool append(uint64_t start, RuleId rule, size_t first);
	bool intern(size_t first, uint32_t *list);
	uint32_t block_size(const Row *rows, uint32_t count) const;

	Rules rules_;
	Array<Row> rows_;
	Array<RowList> lists_;
	Array<Program> programs_;
	IndexTable by_rows_;
	IndexTable by_program_;
	Array<Initial> states_;
};

} // namespace sframe
