// SPDX-License-Identifier: MIT
#include "rows.h"

#include "../core/sframe_format.h"

namespace sframe {

namespace {

constexpr int64_t kFixedRa = -8;

// A value to write: [*](base + offset), base a register or the CFA.
struct Word {
	bool present = false;
	bool from_cfa = false;
	bool deref = false;
	uint32_t reg = 0;
	int64_t offset = 0;

	uint32_t control() const { return SFRAME_FLEX_CTL(from_cfa ? 0 : reg, deref, !from_cfa); }
};

struct RowWords {
	Word cfa, ra, fp;
};

bool fits(int64_t v) { return v == static_cast<int32_t>(v); }

// One of the registers whose value an unwinder can have.
bool is_general(uint32_t reg) { return reg < 16; }

// Turns a location into a word. CFA + offset as a value has no encoding of its
// own, but is a register plus an offset where the CFA is.
bool to_word(const Location &at, const Word &cfa, Word *word)
{
	*word = {.present = true, .reg = at.reg, .offset = at.offset};
	switch (at.kind) {
	case Location::kRegister:
		return is_general(at.reg);
	case Location::kMemory:
		word->deref = true;
		return is_general(at.reg);
	case Location::kCfaMemory:
		word->from_cfa = true;
		word->deref = true;
		return true;
	case Location::kCfaValue:
		word->reg = cfa.reg;
		return cfa.present && !cfa.deref &&
			!__builtin_add_overflow(cfa.offset, at.offset, &word->offset);
	default:
		return false;
	}
}

// What the return address needs beside the CFA: nothing, a word, or a hole.
bool place_ra(const CfiState &state, RowWords *row)
{
	if (state.ra.kind == Location::kCfaMemory && state.ra.offset == kFixedRa)
		return true;
	return to_word(state.ra, row->cfa, &row->ra);
}

bool place_fp(const CfiState &state, RowWords *row)
{
	switch (state.bp.kind) {
	case Location::kUnset:
	case Location::kSame:
		return true;
	case Location::kRegister:
		if (state.bp.reg == kRegBp && state.bp.offset == 0)
			return true;
		break;
	default:
		break;
	}
	return to_word(state.bp, row->cfa, &row->fp);
}

// The caller's rsp is the CFA in SFrame: a rule that says otherwise is a hole.
bool sp_is_cfa(const CfiState &state)
{
	if (state.sp.kind == Location::kUnset)
		return true;
	if (state.sp.kind == Location::kCfaValue)
		return state.sp.offset == 0;
	return state.sp == state.cfa;
}

// The rows that SFrame's default type can say: rsp or rbp plus an offset, the
// return address at its fixed place, rbp at CFA + offset.
bool is_default(const RowWords &row)
{
	return !row.cfa.deref && (row.cfa.reg == kRegSp || row.cfa.reg == kRegBp) &&
		!row.ra.present && (!row.fp.present || (row.fp.from_cfa && row.fp.deref));
}

// The smallest width that holds every word. Control words are unsigned; all of
// them are below 128, so that signed and unsigned agree.
unsigned int word_width(const int32_t *words, unsigned int count)
{
	unsigned int width = SFRAME_FRE_DATAWORD_1B;

	for (unsigned int i = 0; i < count; i++)
		if (words[i] != static_cast<int16_t>(words[i]))
			return SFRAME_FRE_DATAWORD_4B;
		else if (words[i] != static_cast<int8_t>(words[i]))
			width = SFRAME_FRE_DATAWORD_2B;
	return width;
}

void write_words(Rule *rule, bool base_sp, const int32_t *words, unsigned int count)
{
	const unsigned int width = word_width(words, count);
	unsigned char *p = rule->bytes;

	*p++ = static_cast<unsigned char>((width << 5) | (count << 1) | (base_sp ? 1 : 0));
	for (unsigned int i = 0; i < count; i++, p += 1u << width)
		memcpy(p, &words[i], 1u << width);
	rule->size = static_cast<uint8_t>(p - rule->bytes);
}

void write_default(const RowWords &row, Rule *rule)
{
	const int32_t words[2] = {int32_t(row.cfa.offset), int32_t(row.fp.offset)};

	write_words(rule, row.cfa.reg == kRegSp, words, row.fp.present ? 2 : 1);
}

void write_flexible(const RowWords &row, Rule *rule)
{
	int32_t words[6];
	unsigned int n = 0;
	auto put = [&](const Word &word) {
		words[n++] = static_cast<int32_t>(word.control());
		words[n++] = static_cast<int32_t>(word.offset);
	};

	put(row.cfa);
	if (row.ra.present)
		put(row.ra);
	else if (row.fp.present)
		words[n++] = 0;
	if (row.fp.present)
		put(row.fp);
	rule->kind |= Rule::kFlexible;
	write_words(rule, !row.cfa.deref && row.cfa.reg == kRegSp, words, n);
}

// The hole a CFA makes, or kFirstRule if its word can be written.
RuleId place_cfa(const Location &cfa, Word *word)
{
	switch (cfa.kind) {
	case Location::kUnset:
		return SFRAME_UNCOVERED_NO_CFA;
	case Location::kRegister:
	case Location::kMemory:
		return to_word(cfa, {}, word) ? kFirstRule :
						     RuleId(SFRAME_UNCOVERED_CFA_REGISTER);
	default:
		return SFRAME_UNCOVERED_CFA_EXPRESSION;
	}
}

// The rows of most functions, as one number: the same number, the same rule.
// Zero for other rows.
uint64_t common_key(const CfiState &state, bool signal)
{
	const bool sp = state.cfa.reg == kRegSp, fp = state.bp.kind == Location::kCfaMemory;

	if (signal || state.cfa.kind != Location::kRegister || (!sp && state.cfa.reg != kRegBp) ||
	    state.cfa.offset != static_cast<int32_t>(state.cfa.offset) ||
	    state.ra.kind != Location::kCfaMemory || state.ra.offset != kFixedRa ||
	    state.sp.kind != Location::kUnset || (!fp && state.bp.kind != Location::kUnset) ||
	    state.bp.offset != static_cast<int16_t>(state.bp.offset))
		return 0;
	return uint64_t(static_cast<uint32_t>(state.cfa.offset)) << 32 |
		uint64_t(static_cast<uint16_t>(state.bp.offset)) << 8 | (sp ? 2 : 0) | (fp ? 4 : 0) | 1;
}

} // namespace

bool Rules::intern(const Rule &rule, RuleId *id)
{
	const uint64_t hash = hash_bytes(&rule, sizeof(rule));
	const int64_t found = table_.find(hash, [&](uint32_t i) {
		return !memcmp(&rules_[i], &rule, sizeof(rule));
	});

	if (found >= 0) {
		*id = kFirstRule + static_cast<RuleId>(found);
		return true;
	}
	*id = kFirstRule + static_cast<RuleId>(rules_.size());
	return table_.insert(hash, static_cast<uint32_t>(rules_.size())) && rules_.push(rule);
}

// The linker's expression for a PLT: two rules that take turns in each block.
bool Rules::intern_plt(const CfiState &state, bool signal, RuleId *id)
{
	Rule rule = {};
	CfiState half = state;

	half.cfa = {.kind = Location::kRegister, .reg = state.cfa.reg, .offset = state.cfa.offset};
	if (!classify(half, signal, &rule.low))
		return false;
	half.cfa.offset += int64_t(1) << state.cfa.shift;
	if (!classify(half, signal, &rule.high))
		return false;
	if (is_hole(rule.low) || is_hole(rule.high)) {
		*id = is_hole(rule.low) ? rule.low : rule.high;
		return true;
	}
	rule.kind = static_cast<uint8_t>(Rule::kPlt | (*this)[rule.low].kind);
	rule.mask = state.cfa.mask;
	rule.threshold = state.cfa.threshold;
	return intern(rule, id);
}

bool Rules::classify(const CfiState &state, bool signal, RuleId *id)
{
	const uint64_t key = common_key(state, signal);
	Recent &recent = recent_[(key ^ key >> 8 ^ key >> 35) % kRecent];
	RowWords row;
	Rule rule = {};

	if (key && recent.key == key) {
		*id = recent.id;
		return true;
	}
	rule.kind = signal ? Rule::kSignal : 0;
	// No caller: no matter where the rest is.
	if (state.ra.kind == Location::kUndefined) {
		rule.size = 1;
		rule.bytes[0] = 0;
		return intern(rule, id);
	}
	if (state.cfa.kind == Location::kPlt)
		return intern_plt(state, signal, id);
	*id = place_cfa(state.cfa, &row.cfa);
	if (is_hole(*id))
		return true;
	*id = !sp_is_cfa(state) ? RuleId(SFRAME_UNCOVERED_CFA_EXPRESSION) :
		!place_ra(state, &row) ? RuleId(SFRAME_UNCOVERED_RA) :
		!place_fp(state, &row) ? RuleId(SFRAME_UNCOVERED_FP) :
		!fits(row.cfa.offset) || !fits(row.ra.offset) || !fits(row.fp.offset) ?
		RuleId(SFRAME_UNCOVERED_OFFSET) : kFirstRule;
	if (is_hole(*id))
		return true;
	if (is_default(row))
		write_default(row, &rule);
	else
		write_flexible(row, &rule);
	if (!intern(rule, id))
		return false;
	if (key)
		recent = {key, *id};
	return true;
}

bool RowStore::initial(const EhFrame &eh_frame, uint32_t cie, const Initial **state)
{
	if (cie >= states_.size() && !states_.resize(eh_frame.cies().size()))
		return false;
	Initial &at = states_[cie];

	if (!at.known) {
		const Cie &entry = eh_frame.cies()[cie];

		at.known = true;
		at.valid = entry.ra_register == kRegRa && evaluate_cie(entry, &at.state);
	}
	*state = &at;
	return true;
}

// Adds a row unless it says what the one before it says.
bool RowStore::append(uint64_t start, RuleId rule, size_t first)
{
	if (rows_.size() > first && rows_.back().rule == rule)
		return true;
	return rows_.push({static_cast<uint32_t>(start), rule});
}

// Names the rows from first on: an older list if it has the same rows.
bool RowStore::intern(size_t first, uint32_t *list)
{
	const uint32_t count = static_cast<uint32_t>(rows_.size() - first);
	const uint64_t hash = hash_bytes(&rows_[first], count * sizeof(Row));
	const int64_t found = by_rows_.find(hash, [&](uint32_t i) {
		return lists_[i].count == count &&
			!memcmp(&rows_[lists_[i].first], &rows_[first], count * sizeof(Row));
	});

	if (found >= 0) {
		rows_.truncate(first);
		*list = static_cast<uint32_t>(found);
		return true;
	}
	*list = static_cast<uint32_t>(lists_.size());
	return by_rows_.insert(hash, *list) &&
		lists_.push({static_cast<uint32_t>(first), count, 0, rows_.back().start,
			     block_size(&rows_[first], count)});
}

// What an entry's block of these rows takes, or 0 if one entry cannot hold them.
uint32_t RowStore::block_size(const Row *rows, uint32_t count) const
{
	const uint32_t last = rows[count - 1].start;
	uint32_t bytes = SFRAME_FDE_ATTR_V3_SIZE +
		count * (last <= UINT8_MAX ? 1 : last <= UINT16_MAX ? 2 : 4);

	for (uint32_t i = 0; i < count; i++) {
		if (is_hole(rows[i].rule))
			return 0;
		const Rule &rule = rules_[rows[i].rule];

		if (rule.kind & Rule::kPlt || rule.kind != rules_[rows[0].rule].kind)
			return 0;
		bytes += rule.size;
	}
	return bytes;
}

bool RowStore::evaluate(const EhFrame &eh_frame, const Fde &fde, uint32_t *list, bool *absolute)
{
	const size_t first = rows_.size();
	const Cie &cie = eh_frame.cies()[fde.cie];
	const Initial *start;

	*absolute = false;
	if (!initial(eh_frame, fde.cie, &start))
		return false;
	if (!start->valid)
		return append(0, SFRAME_UNCOVERED_BAD_CFI, first) && intern(first, list);
	CfiProgram program(cie, start->state, fde, eh_frame.base());

	for (;;) {
		const CfiProgram::Step step = program.next();
		RuleId rule = SFRAME_UNCOVERED_BAD_CFI;

		// Functions are shorter than 4 GiB: rows behind that are nobody's.
		if (program.start() > UINT32_MAX)
			break;
		if (step != CfiProgram::kBad &&
		    !rules_.classify(program.state(), cie.signal, &rule))
			return false;
		if (!append(program.start(), rule, first))
			return false;
		if (step != CfiProgram::kRow)
			break;
	}
	*absolute = program.absolute();
	return intern(first, list);
}

bool RowStore::add(const EhFrame &eh_frame, const Fde &fde, uint32_t *list)
{
	const uint64_t hash = hash_bytes(fde.program, fde.program_size, fde.cie);
	const int64_t found = by_program_.find(hash, [&](uint32_t i) {
		const Program &program = programs_[i];

		return program.cie == fde.cie && program.size == fde.program_size &&
			!memcmp(eh_frame.bytes() + program.offset, fde.program, program.size);
	});
	bool absolute;

	if (found >= 0) {
		*list = programs_[static_cast<size_t>(found)].list;
		return true;
	}
	if (!evaluate(eh_frame, fde, list, &absolute))
		return false;
	if (absolute)
		return true;
	const Program program = {static_cast<uint32_t>(fde.program - eh_frame.bytes()),
				 static_cast<uint32_t>(fde.program_size), fde.cie, *list};

	return by_program_.insert(hash, static_cast<uint32_t>(programs_.size())) &&
		programs_.push(program);
}

} // namespace sframe
