// SPDX-License-Identifier: MIT
//
// The cached form of a row against the row itself, applied by the core.
#include "unwind_rule.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

using namespace sframe;

namespace {

sframe_rule rule_of(unsigned base, unsigned reg, unsigned deref, int32_t offset)
{
	return { uint8_t(base), uint8_t(deref), uint16_t(reg), offset };
}

sframe_row row_of(sframe_rule cfa, sframe_rule fp)
{
	sframe_row row = {};

	row.cfa = cfa;
	row.ra = rule_of(SFRAME_RULE_CFA, 0, 1, -8);
	row.fp = fp;
	return row;
}

bool same(const sframe_rule &a, const sframe_rule &b)
{
	return a.base == b.base && a.reg == b.reg && a.deref == b.deref && a.offset == b.offset;
}

const sframe_rule cfa_sp = rule_of(SFRAME_RULE_REG, 7, 0, 48);
const sframe_rule unchanged = {};

} // namespace

TEST(Rule, HoldsARowOrRefusesIt)
{
	std::mt19937 random(1);
	const unsigned regs[] = { 6, 7, 10, 0 };
	const int32_t offsets[] = { 8, 16, -8, -16, 0, 120, 160, 4096, 1 << 20, (1 << 21) - 1,
				    (1 << 26) - 1, 1 << 26, -(1 << 26), -(1 << 26) - 1, INT32_MAX, INT32_MIN };
	unsigned held = 0;

	const auto pick = [&](const auto &from) { return from[random() % std::size(from)]; };
	for (int i = 0; i < 200000; i++) {
		sframe_row row = row_of(
			rule_of(SFRAME_RULE_REG, pick(regs), random() % 2, pick(offsets)),
			rule_of(random() % 3, 0, random() % 2, pick(offsets)));
		if (row.fp.base == SFRAME_RULE_REG)
			row.fp.reg = uint16_t(pick(regs));
		if (row.fp.base == SFRAME_RULE_NONE)
			row.fp = unchanged;
		row.signal = random() % 8 == 0;
		const Rule rule = Rule::from_row(row);
		if (!rule)
			continue;
		held++;
		const sframe_row back = rule.row();
		ASSERT_TRUE(same(back.cfa, row.cfa) && same(back.ra, row.ra) && same(back.fp, row.fp))
			<< "cfa " << int(row.cfa.reg) << " " << row.cfa.offset;
		ASSERT_EQ(back.signal, row.signal);
		ASSERT_FALSE(back.outermost);
	}
	EXPECT_GT(held, 10000u);
}

TEST(Rule, TakesWhatRealCodeSays)
{
	EXPECT_EQ(Rule::from_row(row_of(cfa_sp, unchanged)).kind(), Rule::Sp);
	EXPECT_EQ(Rule::from_row(row_of(rule_of(SFRAME_RULE_REG, 6, 0, 16),
					rule_of(SFRAME_RULE_CFA, 0, 1, -16))).kind(), Rule::Fp);
	EXPECT_EQ(Rule::from_row(row_of(rule_of(SFRAME_RULE_REG, 6, 1, -8),
					rule_of(SFRAME_RULE_REG, 6, 1, 0))).kind(), Rule::FpDeref);
	sframe_row last = {};
	last.outermost = 1;
	EXPECT_EQ(Rule::from_row(last).kind(), Rule::Outermost);
	EXPECT_TRUE(Rule::from_row(last).row().outermost);
}

TEST(Rule, TakesTheKernelsSignalFrameOnly)
{
	sframe_row row = {};

	row.signal = 1;
	row.cfa = rule_of(SFRAME_RULE_REG, 7, 1, 160);
	row.ra = rule_of(SFRAME_RULE_REG, 7, 1, 168);
	row.fp = rule_of(SFRAME_RULE_REG, 7, 1, 120);
	EXPECT_EQ(Rule::from_row(row).kind(), Rule::Signal);
	row.fp.offset = 112;
	EXPECT_FALSE(Rule::from_row(row));
}

TEST(Rule, RefusesRegistersOfTheTopmostFrame)
{
	EXPECT_FALSE(Rule::from_row(row_of(rule_of(SFRAME_RULE_REG, 10, 0, 0), unchanged)));
	EXPECT_FALSE(Rule::from_row(row_of(cfa_sp, rule_of(SFRAME_RULE_REG, 10, 0, 0))));
}

TEST(Rule, RefusesAReturnAddressElsewhere)
{
	sframe_row row = row_of(cfa_sp, unchanged);

	row.ra.offset = -16;
	EXPECT_FALSE(Rule::from_row(row));
}

class Cache : public testing::Test {
protected:
	static const Rule rule() { return Rule::from_row(row_of(cfa_sp, unchanged)); }
	std::unique_ptr<RuleCache> owner = std::make_unique<RuleCache>();
	RuleCache &cache = *owner;
};

TEST_F(Cache, FindsWhatWasInserted)
{
	cache.insert(RuleCache::Era(7, false), 0x401234, rule());
	EXPECT_EQ(cache.find(RuleCache::Era(7, false), 0x401234).bits(), rule().bits());
	EXPECT_FALSE(cache.find(RuleCache::Era(7, false), 0x401235));
	EXPECT_FALSE(cache.find(RuleCache::Era(7, true), 0x401234));
}

TEST_F(Cache, ForgetsWithEachGeneration)
{
	for (unsigned bit = 0; bit < 63; bit++) {
		cache.insert(RuleCache::Era(0, false), 0x401234, rule());
		EXPECT_FALSE(cache.find(RuleCache::Era(UINT64_C(1) << bit, false), 0x401234)) << bit;
		EXPECT_TRUE(cache.find(RuleCache::Era(0, false), 0x401234)) << bit;
	}
}

TEST_F(Cache, KeepsTwoOfASet)
{
	const uint64_t a = 0x7f0000001234, b = a + 0x1001000;	// of the same set

	cache.insert(RuleCache::Era(1, false), a, rule());
	cache.insert(RuleCache::Era(1, false), b, rule());
	EXPECT_TRUE(cache.find(RuleCache::Era(1, false), a));
	EXPECT_TRUE(cache.find(RuleCache::Era(1, false), b));
}

TEST_F(Cache, HoldsAWorkingSet)
{
	std::vector<uint64_t> pcs;
	std::mt19937_64 random(2);

	for (int i = 0; i < 3000; i++)
		pcs.push_back(0x7f5500000000 + random() % (8 << 20));
	for (uint64_t pc : pcs)
		cache.insert(RuleCache::Era(1, false), pc, rule());
	const auto found = std::count_if(pcs.begin(), pcs.end(),
					 [&](uint64_t pc) { return bool(cache.find(RuleCache::Era(1, false), pc)); });
	EXPECT_GT(found, 2700);
}
