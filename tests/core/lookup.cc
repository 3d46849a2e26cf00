// SPDX-License-Identifier: MIT
//
// From a PC to its row: boundaries, both kinds of blocks, outermost marks,
// growing sections, and the stated bound of reads.
#include "memory.h"
#include "section_builder.h"

#include <gtest/gtest.h>

using namespace core_test;

namespace {

constexpr uint64_t AT = 0x400000;

// A section in memory, accepted. Functions given to the builder lie at AT + start.
struct Fixture {
	Memory memory;
	sframe_section section;

	explicit Fixture(const std::string &bytes, unsigned int options = 0, uint64_t func_base = 0)
	{
		memory.add(AT, bytes);
		EXPECT_EQ(sframe_section_parse(&section, AT, bytes.size(), func_base, options, &memory),
			  SFRAME_OK);
		memory.reads = 0;
	}
	int lookup(uint64_t pc, sframe_row *row)
	{
		memory.reads = 0;
		return sframe_lookup(&section, pc, row, &memory);
	}
	// CFA's offset at a PC, or -status.
	int cfa(uint64_t pc)
	{
		sframe_row row;
		const int status = lookup(pc, &row);

		return status ? -status : row.cfa.offset;
	}
};

class BothVersions : public testing::TestWithParam<uint8_t> {
public:
	SectionBuilder builder() const
	{
		SectionBuilder b;

		b.version = GetParam();
		return b;
	}
};

INSTANTIATE_TEST_SUITE_P(Lookup, BothVersions, testing::Values(2, 3));

TEST_P(BothVersions, RowsHoldFromTheirStartToTheNext)
{
	SectionBuilder b = builder();

	b.function(0x1000, 0x20).row(0, SP, { 8 }).row(1, SP, { 16, -16 }).row(0x1f, SP, { 24 });
	Fixture f(b.bytes());
	sframe_row row;

	EXPECT_EQ(f.cfa(AT + 0x1000), 8);
	EXPECT_EQ(f.cfa(AT + 0x1001), 16);
	EXPECT_EQ(f.cfa(AT + 0x101e), 16);
	EXPECT_EQ(f.cfa(AT + 0x101f), 24);
	EXPECT_EQ(f.lookup(AT + 0x1010, &row), SFRAME_OK);
	EXPECT_EQ(row.start, 1u);
	EXPECT_EQ(row.end, 0x1fu);
	EXPECT_EQ(f.lookup(AT + 0x101f, &row), SFRAME_OK);
	EXPECT_EQ(row.end, 0x20u);
}

TEST_P(BothVersions, GapsAreNotCovered)
{
	SectionBuilder b = builder();

	b.function(0x1000, 0x10).row(0, SP, { 8 });
	b.function(0x1020, 0x10).row(4, SP, { 16 });
	Fixture f(b.bytes());

	EXPECT_EQ(f.cfa(AT + 0xfff), -SFRAME_NOT_COVERED);
	EXPECT_EQ(f.cfa(AT + 0x100f), 8);
	EXPECT_EQ(f.cfa(AT + 0x1010), -SFRAME_NOT_COVERED);
	EXPECT_EQ(f.cfa(AT + 0x1020), -SFRAME_NOT_COVERED) << "in front of its first row";
	EXPECT_EQ(f.cfa(AT + 0x1024), 16);
	EXPECT_EQ(f.cfa(AT + 0x1030), -SFRAME_NOT_COVERED);
	EXPECT_EQ(f.cfa(0), -SFRAME_NOT_COVERED);
	EXPECT_EQ(f.cfa(~UINT64_C(0)), -SFRAME_NOT_COVERED);
}

TEST_P(BothVersions, EmptyFunctionCoversNothing)
{
	SectionBuilder b = builder();

	b.function(0x1000, 0).row(0, SP, { 8 });
	b.function(0x1000, 0x10).row(0, SP, { 16 });
	Fixture f(b.bytes());

	EXPECT_EQ(f.cfa(AT + 0x1000), 16);
}

TEST_P(BothVersions, EachFunctionIsFound)
{
	SectionBuilder b = builder();

	for (uint64_t i = 0; i < 1000; i++)
		b.function(0x1000 + 16 * i, 16).row(0, SP, { static_cast<int64_t>(8 * i) });
	Fixture f(b.bytes());

	for (uint64_t i = 0; i < 1000; i++) {
		EXPECT_EQ(f.cfa(AT + 0x1000 + 16 * i), static_cast<int>(8 * i));
		EXPECT_EQ(f.cfa(AT + 0x1000 + 16 * i + 15), static_cast<int>(8 * i));
		EXPECT_LE(f.memory.reads, 10u + 3u) << "a binary search";
	}
}

TEST_P(BothVersions, RepeatingBlocksCountFromTheirFunction)
{
	SectionBuilder b = builder();

	b.function(0x1008, 0x30).repeating(16).row(0, SP, { 8 }).row(11, SP, { 16 });
	Fixture f(b.bytes());
	sframe_row row;

	for (uint64_t block = 0; block < 3; block++) {
		EXPECT_EQ(f.cfa(AT + 0x1008 + 16 * block), 8);
		EXPECT_EQ(f.cfa(AT + 0x1008 + 16 * block + 10), 8);
		EXPECT_EQ(f.cfa(AT + 0x1008 + 16 * block + 11), 16);
		EXPECT_EQ(f.cfa(AT + 0x1008 + 16 * block + 15), 16);
	}
	EXPECT_EQ(f.lookup(AT + 0x1008 + 27, &row), SFRAME_OK);
	EXPECT_EQ(row.end, 16u);
}

TEST_P(BothVersions, RepeatingBlocksOfNoBytesAreCorrupt)
{
	SectionBuilder b = builder();

	b.function(0x1000, 0x30).repeating(0).row(0, SP, { 8 });
	EXPECT_EQ(Fixture(b.bytes()).cfa(AT + 0x1000), -SFRAME_CORRUPT);
}

TEST_P(BothVersions, RowWithoutWordsIsOutermost)
{
	SectionBuilder b = builder();
	sframe_row row;

	b.function(0x1000, 0x20).row(0, SP, { 8 }).row(4, SP, {});
	Fixture f(b.bytes());
	EXPECT_EQ(f.lookup(AT + 0x1004, &row), SFRAME_OK);
	EXPECT_TRUE(row.outermost);
	EXPECT_EQ(f.lookup(AT + 0x1003, &row), SFRAME_OK);
	EXPECT_FALSE(row.outermost);
}

TEST_P(BothVersions, StartsCountFromTheFieldWithThePcRelativeFlag)
{
	SectionBuilder b = builder();

	b.flags |= SFRAME_F_FDE_FUNC_START_PCREL;
	b.function(0x1000, 0x20).row(0, SP, { 8 });
	b.function(0x1020, 0x20).row(0, SP, { 16 });
	Fixture f(b.bytes());
	EXPECT_EQ(f.cfa(AT + 0x101f), 8);
	EXPECT_EQ(f.cfa(AT + 0x1020), 16);
}

TEST_P(BothVersions, StartsCountFromTheFunctionBase)
{
	SectionBuilder b = builder();

	b.function(0x1000, 0x20).row(0, SP, { 8 });
	Fixture f(b.bytes(), SFRAME_PARSE_FUNC_BASE, 0x7f0000000000);
	EXPECT_EQ(f.cfa(0x7f0000001000), 8);
	EXPECT_EQ(f.cfa(AT + 0x1000), -SFRAME_NOT_COVERED);
}

TEST(Lookup, FunctionsMayLieBelowTheSection)
{
	SectionBuilder b;

	b.function(static_cast<uint64_t>(-0x1000), 0x20).row(0, SP, { 8 });
	b.function(0x1000, 0x20).row(0, SP, { 16 });
	Fixture f(b.bytes());
	EXPECT_EQ(f.cfa(AT - 0x1000), 8);
	EXPECT_EQ(f.cfa(AT + 0x1000), 16);
}

TEST(Lookup, Version3FunctionsMayBeFarAway)
{
	SectionBuilder b;

	b.function(UINT64_C(0x123456789000), 0x20).row(0, SP, { 8 });
	EXPECT_EQ(Fixture(b.bytes()).cfa(AT + UINT64_C(0x123456789000)), 8);
}

TEST(Lookup, FunctionWithoutRowsIsOutermostInVersion3)
{
	SectionBuilder b;
	sframe_row row;

	b.function(0x1000, 0x20);
	Fixture f(b.bytes());
	EXPECT_EQ(f.lookup(AT + 0x1010, &row), SFRAME_OK);
	EXPECT_TRUE(row.outermost);
	EXPECT_EQ(row.end, 0x20u);
	b.version = 2;
	EXPECT_EQ(Fixture(b.bytes()).lookup(AT + 0x1010, &row), SFRAME_NOT_COVERED);
}

// gas 2.47 writes this where it cannot express a signal frame's CFI.
TEST(Lookup, SignalFrameWithoutRowsIsAGap)
{
	SectionBuilder b;

	b.function(0x1000, 0x20).signal_frame();
	EXPECT_EQ(Fixture(b.bytes()).cfa(AT + 0x1010), -SFRAME_NOT_COVERED);
}

TEST(Lookup, FlexibleRules)
{
	SectionBuilder b;
	sframe_row row;
	const auto ctl = [](unsigned int reg, bool deref, bool reg_p) {
		return static_cast<int64_t>(SFRAME_FLEX_CTL(reg, deref, reg_p));
	};

	b.function(0x1000, 0x40)
		.flex(0, { ctl(10, false, true), 0 })
		.flex(1, { ctl(6, true, true), -8, 0, ctl(6, true, true), 0 })
		.flex(2, { ctl(7, false, true), 0, ctl(5, false, true), 0 })
		.flex(3, { ctl(7, true, true), 160, ctl(7, true, true), 168, ctl(7, true, true), 120 });
	Fixture f(b.bytes());

	EXPECT_EQ(f.lookup(AT + 0x1000, &row), SFRAME_OK);
	EXPECT_EQ(row.cfa.reg, 10);
	EXPECT_EQ(row.ra.base, SFRAME_RULE_CFA);
	EXPECT_EQ(row.ra.offset, -8) << "what the row does not say, the header does";
	EXPECT_EQ(row.fp.base, SFRAME_RULE_NONE);
	EXPECT_EQ(f.lookup(AT + 0x1001, &row), SFRAME_OK);
	EXPECT_TRUE(row.cfa.deref);
	EXPECT_EQ(row.cfa.offset, -8);
	EXPECT_EQ(row.ra.offset, -8);
	EXPECT_EQ(row.fp.reg, 6);
	EXPECT_TRUE(row.fp.deref);
	EXPECT_EQ(f.lookup(AT + 0x1002, &row), SFRAME_OK);
	EXPECT_EQ(row.ra.base, SFRAME_RULE_REG);
	EXPECT_EQ(row.ra.reg, 5);
	EXPECT_FALSE(row.ra.deref);
	EXPECT_EQ(f.lookup(AT + 0x1003, &row), SFRAME_OK);
	EXPECT_EQ(row.fp.offset, 120);
}

TEST(Lookup, FlexibleRulesThatMakeNoSenseAreCorrupt)
{
	const std::vector<std::vector<int64_t>> bad = {
		{ 0 },				// no CFA
		{ 0, 3 },
		{ 2, 8 },			// CFA from the CFA
		{ 7 << 3 | 1 },			// no offset
		{ 7 << 3 | 4 | 1, 8 },		// the unused bit
		{ 7 << 3 | 1, 8, 2 },
		{ 7 << 3 | 1, 8, 0, 0, 0 },	// words behind the third rule
		{ 0x10000 << 3 | 1, 8 },	// no such register
	};

	for (const auto &words : bad) {
		SectionBuilder b;

		b.function(0x1000, 0x40).flex(0, words);
		EXPECT_EQ(Fixture(b.bytes()).cfa(AT + 0x1000), -SFRAME_CORRUPT) << words.size();
	}
}

TEST(Lookup, RowsOfMoreWordsThanRulesAreCorrupt)
{
	for (size_t count : { 3, 7, 15 }) {
		SectionBuilder b;

		b.function(0x1000, 0x40).row(0, SP, std::vector<int64_t>(count, 8));
		EXPECT_EQ(Fixture(b.bytes()).cfa(AT + 0x1000), -SFRAME_CORRUPT) << count;
	}
}

TEST(Lookup, UnknownBitsOfAFunctionAreCorrupt)
{
	for (int bit = 0; bit < 16; bit++) {
		SectionBuilder b;
		FunctionBuilder &fn = b.function(0x1000, 0x40).row(0, SP, { 8 });

		(bit < 8 ? fn.extra_info : fn.extra_info2) = static_cast<uint8_t>(1u << bit % 8);
		// row type ADDR2 to ADDR4 and wider, the unused bit; fde types from 2 on, unused bits
		const bool legal = bit == 5 || bit == 7;
		if (bit == 4 || bit < 2 || bit == 8)
			continue;	// legal too, but they change what follows
		EXPECT_EQ(Fixture(b.bytes()).cfa(AT + 0x1000), legal ? 8 : -SFRAME_CORRUPT) << bit;
	}
}

TEST(Lookup, GrowingSectionShowsWhatIsPublished)
{
	SectionBuilder b;

	for (uint64_t i = 0; i < 4; i++)
		b.function(0x1000 + 16 * i, 16).row(0, SP, { static_cast<int64_t>(8 + i) });
	std::string bytes = b.bytes();
	bytes[8] = 0;	// four functions are written, none is published
	Fixture f(bytes, SFRAME_PARSE_GROWABLE);

	EXPECT_EQ(f.section.max_fdes, 4u);
	for (char n = 0; n <= 4; n++) {
		f.memory.regions[0].bytes[8] = n;
		for (int i = 0; i < 4; i++)
			EXPECT_EQ(f.cfa(AT + 0x1000 + 16u * static_cast<unsigned int>(i)),
				  i < n ? 8 + i : -SFRAME_NOT_COVERED);
	}
	f.memory.regions[0].bytes[8] = 5;
	EXPECT_EQ(f.cfa(AT + 0x1000), -SFRAME_CORRUPT) << "more than there is room for";
}

TEST(Lookup, OtherSectionsDoNotReadTheirCountAgain)
{
	SectionBuilder b;

	b.function(0x1000, 16).row(0, SP, { 8 });
	Fixture f(b.bytes());
	f.memory.regions[0].bytes[8] = 0;
	EXPECT_EQ(f.cfa(AT + 0x1000), 8);
}

// Rows of all lengths cross the blocks that they are read in.
TEST(Lookup, ManyRowsOfAllLengths)
{
	for (unsigned int type : { 0u, 1u, 2u }) {
		const uint32_t count = type == 0 ? 200 : 3000;
		SectionBuilder b;
		FunctionBuilder &fn = b.function(0x10000, count + 1).addresses(type);

		for (uint32_t i = 0; i < count; i++) {
			const int64_t cfa = i % 5 == 0 ? 1000000 + i : i % 3 == 0 ? 1000 + i % 100 : i % 100;
			fn.row(i, SP, i % 2 ? std::vector<int64_t>{ cfa, -16 } : std::vector<int64_t>{ cfa });
		}
		Fixture f(b.bytes());
		for (uint32_t i = 0; i < count; i++)
			ASSERT_EQ(f.cfa(AT + 0x10000 + i), fn.rows[i].words[0]) << type << ' ' << i;
		EXPECT_EQ(f.cfa(AT + 0x10000 + count), fn.rows[count - 1].words[0]);
	}
}

// The work of one lookup has a bound: the longest legal function, all rows as
// long as they can be, among as many functions as a search can have steps for.
TEST(Lookup, NoLookupReadsMoreThanTheStatedBound)
{
	SectionBuilder b;
	FunctionBuilder &fn = b.function(0x10000, 0x100000).addresses(2);

	for (uint32_t i = 0; i < SFRAME_MAX_ROWS; i++)
		fn.flex(i, { 1 << 18 | 1, 8, 1 << 18 | 1, 8, 1 << 18 | 1, 8 });
	Fixture f(b.bytes());
	sframe_row row;

	EXPECT_EQ(f.lookup(AT + 0x10000 + 0xfffff, &row), SFRAME_OK);
	EXPECT_LE(f.memory.reads, SFRAME_MAX_LOOKUP_READS);
	EXPECT_GT(f.memory.reads, SFRAME_MAX_LOOKUP_READS / 2) << "the bound is not idle";
}

TEST(Lookup, MoreRowsThanVersion3CanCountAreCorrupt)
{
	SectionBuilder b;

	b.version = 2;
	FunctionBuilder &fn = b.function(0x10000, 0x20000).addresses(2);
	for (uint32_t i = 0; i < SFRAME_MAX_ROWS + 1; i++)
		fn.row(i, SP, { 8 });
	EXPECT_EQ(Fixture(b.bytes()).cfa(AT + 0x10000), -SFRAME_CORRUPT);
}

// Thirty-two rows, as neighbours packed into one entry have, take one or two reads.
TEST(Lookup, PackedFunctionsTakeFewReads)
{
	SectionBuilder b;
	FunctionBuilder &fn = b.function(0x1000, 0x100);

	for (uint32_t i = 0; i < 32; i++)
		fn.row(8 * i, SP, { 16, -16 });
	Fixture f(b.bytes());
	EXPECT_EQ(f.cfa(AT + 0x10ff), 16);
	EXPECT_LE(f.memory.reads, 1u + 2u + 2u);
}

TEST(Lookup, UnreadableBytesAreSaidSo)
{
	SectionBuilder b;

	b.function(0x1000, 0x10).row(0, SP, { 8 });
	Fixture f(b.bytes());
	f.memory.regions[0].bytes.resize(28 + 16);
	EXPECT_EQ(f.cfa(AT + 0x1000), -SFRAME_UNREADABLE);
	f.memory.regions[0].bytes.resize(28);
	EXPECT_EQ(f.cfa(AT + 0x1000), -SFRAME_UNREADABLE);
}

} // namespace
