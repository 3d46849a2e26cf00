// SPDX-License-Identifier: MIT
//
// A row, packed into one word, and the cache of such words by PC.
//
// Nearly every row of real code says: CFA is rsp or rbp plus a multiple of 8,
// the return address lies below it, rbp is unchanged or saved near it. Such a
// row depends on nothing but the PC, so that the next walk through the same
// frame needs no search. Rows that say anything else (a register only the
// topmost frame knows, an offset that does not fit) are not cached and take
// the way through the core each time.
//
// Readers and writers of the cache are signal handlers on any thread and take
// no lock. An entry is two words, {key ^ data, data}; a reader that gets halves
// of two entries computes a key that is not its own and misses. Keys are mixed
// over 64 bits: without that, PCs that are close and rules that are alike could
// forge each other's. A key holds the PC, whether execution is there or will
// return there, and the registry's generation, which rises before a removal
// returns: an entry learned under an earlier one never matches again.
#pragma once

#include <atomic>
#include <cstdint>
#include "unwind_core.h"

namespace sframe {

class Rule {
public:
	enum Kind : uint64_t {
		None = 0,
		Sp,		// CFA = rsp + offset
		Fp,		// CFA = rbp + offset
		FpDeref,	// CFA = *(rbp + offset): a realigned frame
		Outermost,
		Signal,		// the kernel's ucontext lies at rsp
	};
	enum FpRule : uint64_t {
		Same = 0,	// rbp unchanged
		AtCfa,		// saved at CFA + offset
		AtFp,		// saved at rbp + offset
	};

	// Layout, from the top: CFA offset (one shift away: the walk waits for
	// it), rbp offset, rbp rule, kind.
	static constexpr unsigned cfa_bits = 32, fp_bits = 27, fp_rule_bits = 2, kind_bits = 3;

	constexpr Rule() = default;
	explicit constexpr Rule(uint64_t bits) : bits_(bits) {}

	// None if the row does not fit.
	static Rule from_row(const sframe_row &row);
	// The row again, as the core applies it.
	sframe_row row() const;

	explicit operator bool() const { return bits_ != 0; }
	uint64_t bits() const { return bits_; }
	Kind kind() const { return Kind(bits_ & 7); }
	FpRule fp_rule() const { return FpRule(bits_ >> kind_bits & 3); }
	int64_t cfa_offset() const { return int64_t(bits_) >> (64 - cfa_bits); }
	int64_t fp_offset() const { return int64_t(bits_ << cfa_bits) >> (64 - fp_bits); }

private:
	static_assert(cfa_bits + fp_bits + fp_rule_bits + kind_bits == 64);

	static constexpr bool fits(int32_t offset, unsigned bits)
	{
		return offset >= -(INT64_C(1) << (bits - 1)) && offset < INT64_C(1) << (bits - 1);
	}

	static Rule make(Kind kind, FpRule fp = Same, int32_t cfa_offset = 0, int32_t fp_offset = 0)
	{
		constexpr uint64_t fp_mask = (UINT64_C(1) << fp_bits) - 1;

		return Rule(uint64_t(int64_t(cfa_offset)) << (64 - cfa_bits) |
			    (uint64_t(int64_t(fp_offset)) & fp_mask) << (64 - cfa_bits - fp_bits) |
			    fp << kind_bits | kind);
	}

	uint64_t bits_ = 0;
};

static_assert(sizeof(Rule) == 8);

inline Rule Rule::from_row(const sframe_row &row)
{
	const auto is = [](const sframe_rule &rule, unsigned base, unsigned reg, unsigned deref) {
		return rule.base == base && rule.reg == reg && rule.deref == deref;
	};
	constexpr unsigned sp = SFRAME_AMD64_REG_SP, fp = SFRAME_AMD64_REG_FP;

	if (row.outermost)
		return make(Outermost);
	if (row.signal) {
		// Exactly what sframe_row_apply() takes for the kernel's layout.
		if (is(row.cfa, SFRAME_RULE_REG, sp, 1) && row.cfa.offset == 160 &&
		    is(row.ra, SFRAME_RULE_REG, sp, 1) && row.ra.offset == 168 &&
		    is(row.fp, SFRAME_RULE_REG, sp, 1) && row.fp.offset == 120)
			return make(Signal);
		return Rule();
	}
	if (!is(row.ra, SFRAME_RULE_CFA, 0, 1) || row.ra.offset != -8)
		return Rule();

	Kind kind;
	if (is(row.cfa, SFRAME_RULE_REG, sp, 0))
		kind = Sp;
	else if (is(row.cfa, SFRAME_RULE_REG, fp, 0))
		kind = Fp;
	else if (is(row.cfa, SFRAME_RULE_REG, fp, 1))
		kind = FpDeref;
	else
		return Rule();

	FpRule saved = Same;
	if (is(row.fp, SFRAME_RULE_CFA, 0, 1))
		saved = AtCfa;
	else if (is(row.fp, SFRAME_RULE_REG, fp, 1))
		saved = AtFp;
	else if (row.fp.base != SFRAME_RULE_NONE)
		return Rule();

	if (!fits(row.cfa.offset, cfa_bits) || !fits(row.fp.offset, fp_bits))
		return Rule();
	return make(kind, saved, row.cfa.offset, row.fp.offset);
}

inline sframe_row Rule::row() const
{
	constexpr uint16_t sp = SFRAME_AMD64_REG_SP, fp = SFRAME_AMD64_REG_FP;
	sframe_row row = {};

	row.outermost = kind() == Outermost;
	row.signal = kind() == Signal;
	if (kind() == Signal) {
		row.cfa = { SFRAME_RULE_REG, 1, sp, 160 };
		row.ra = { SFRAME_RULE_REG, 1, sp, 168 };
		row.fp = { SFRAME_RULE_REG, 1, sp, 120 };
		return row;
	}
	row.cfa = { SFRAME_RULE_REG, kind() == FpDeref, kind() == Sp ? sp : fp,
		    int32_t(cfa_offset()) };
	row.ra = { SFRAME_RULE_CFA, 1, 0, -8 };
	if (fp_rule() == AtCfa)
		row.fp = { SFRAME_RULE_CFA, 1, 0, int32_t(fp_offset()) };
	else if (fp_rule() == AtFp)
		row.fp = { SFRAME_RULE_REG, 1, fp, int32_t(fp_offset()) };
	return row;
}

// Two ways of 4096 sets: the working set of a large program (some thousand
// call sites) in memory that stays zero pages until it is used.
class RuleCache {
public:
	// What all lookups of one walk have in common. A bijection of generation
	// and exactness: no two share keys for the same PC.
	class Era {
	public:
		explicit Era(uint64_t generation, bool exact)
			: tag_(mix(~(generation << 1 | exact)))
		{
		}

	private:
		friend class RuleCache;
		uint64_t tag_;
	};

	// None if the cache does not know.
	Rule find(Era era, uint64_t pc) const
	{
		const uint64_t key = mix(pc) ^ era.tag_;
		const Set &set = sets_[index(pc)];

		if (const Rule rule = set.way[0].rule(key); rule) [[likely]]
			return rule;
		return set.way[1].rule(key);
	}

	// The newer entry stands in front; the one that was there survives once.
	void insert(Era era, uint64_t pc, Rule rule)
	{
		Set &set = sets_[index(pc)];

		set.way[1].key.store(set.way[0].key.load(std::memory_order_relaxed),
				     std::memory_order_relaxed);
		set.way[1].data.store(set.way[0].data.load(std::memory_order_relaxed),
				      std::memory_order_relaxed);
		set.way[0].key.store(mix(pc) ^ era.tag_ ^ rule.bits(), std::memory_order_relaxed);
		set.way[0].data.store(rule.bits(), std::memory_order_relaxed);
	}

private:
	static constexpr unsigned set_count = 4096;

	struct Entry {
		std::atomic<uint64_t> key, data;

		Rule rule(uint64_t wanted) const
		{
			const uint64_t bits = data.load(std::memory_order_relaxed);

			return (key.load(std::memory_order_relaxed) ^ bits) == wanted ? Rule(bits)
										      : Rule();
		}
	};
	struct alignas(32) Set {
		Entry way[2];
	};
	static_assert(sizeof(Entry) == 16 && sizeof(Set) == 32);

	// A bijection: multiplying by an odd number, folding the upper half down.
	static uint64_t mix(uint64_t x)
	{
		x *= UINT64_C(0x9e3779b97f4a7c15);
		return x ^ x >> 32;
	}

	// Call sites are spread over their pages well enough, and the walk waits
	// for this.
	static unsigned index(uint64_t pc) { return pc % set_count; }

	Set sets_[set_count];
};

static_assert(sizeof(RuleCache) == 128 * 1024);

} // namespace sframe
