// SPDX-License-Identifier: MIT
//
// What stands around the programs: CIE forms, FDE ranges, terminators, and how
// functions become entries.
#include <gtest/gtest.h>
#include "eh_frame_builder.h"

namespace {

const Bytes kPush = {0x41, 0x0e, 16};	// after 1 byte: CFA = rsp + 16

std::string first_rules(EhFrameBuilder &b)
{
	Section s(b.image());

	return s.error() ? "error" : rules_at(s, kText);
}

TEST(Cie, Augmentations)
{
	const struct {
		const char *letters;
		Bytes data;
		Bytes of_fde;	// augmentation data with its size
	} cases[] = {
		{"zR", {0x1b}, {0}},
		{"zRS", {0x1b}, {0}},
		{"zPLR", {0x9b, 1, 2, 3, 4, 0x1b, 0x1b}, {4, 1, 2, 3, 4}},
		{"zPLRS", {0x9b, 1, 2, 3, 4, 0x1b, 0x1b}, {4, 1, 2, 3, 4}},
		{"zRPL", {0x1b, 0x03, 1, 2, 3, 4, 0x0c}, {8, 1, 2, 3, 4, 5, 6, 7, 8}},
		{"zPR", {0x00, 1, 2, 3, 4, 5, 6, 7, 8, 0x1b}, {0}},
		{"zPR", {0xff, 0x1b}, {0}},
		{"zLR", {0x1b, 0x1b}, {4, 1, 2, 3, 4}},
	};

	for (const auto &c : cases) {
		EhFrameBuilder b;

		b.fde(b.cie(kEntryRules, {.augmentation = c.letters, .data = c.data}), kText, 16, {},
		      c.of_fde);
		EXPECT_EQ(first_rules(b), "sp+8 *(c-8) u") << c.letters;
	}
}

TEST(Cie, WithoutAugmentationHasAbsoluteAddresses)
{
	for (const char *letters : {"", "eh"}) {
		EhFrameBuilder b;
		const size_t cie = b.cie(kEntryRules, {.augmentation = letters});

		b.entry(little(static_cast<uint32_t>(b.size() + 4 - cie)) + little(kText) +
			little(uint64_t(16)));
		EXPECT_EQ(first_rules(b), "sp+8 *(c-8) u") << letters;
	}
}

TEST(Cie, AlignedPersonality)
{
	EhFrameBuilder b;
	// Data begins behind length, id, version, letters, alignments, RA, size.
	const uint64_t at = kEhFrame + 4 + 4 + 1 + 4 + 3 + 1 + 1;
	const Bytes pad(-at & 7);

	b.fde(b.cie(kEntryRules, {.augmentation = "zPR", .data = Bytes{0x50} + pad + Bytes(8) + Bytes{0x1b}}),
	      kText, 16, {});
	EXPECT_EQ(first_rules(b), "sp+8 *(c-8) u");
}

TEST(Cie, Versions)
{
	for (unsigned char version : {1, 3, 4}) {
		EhFrameBuilder b;

		b.fde(b.cie(kEntryRules, {.version = version}), kText, 16, {});
		EXPECT_EQ(first_rules(b), "sp+8 *(c-8) u") << unsigned(version);
	}
	for (unsigned char version : {0, 2, 5, 255}) {
		EhFrameBuilder b;

		b.fde(b.cie(kEntryRules, {.version = version}), kText, 16, {});
		EXPECT_EQ(first_rules(b), "none") << unsigned(version);
	}
}

TEST(Cie, UnknownLettersAreRefused)
{
	for (const char *letters : {"zX", "zRB", "R", "armcc+"}) {
		EhFrameBuilder b;

		b.fde(b.cie(kEntryRules, {.augmentation = letters, .data = {0x1b, 0x1b}}), kText, 16, {});
		Section s(b.image());
		EXPECT_EQ(rules_at(s, kText), "none") << letters;
		EXPECT_EQ(s.stats().uncovered[SFRAME_UNCOVERED_BAD_CFI], 1u);
	}
}

TEST(Cie, AugmentationThatLiesAboutItsSize)
{
	EhFrameBuilder b;
	Bytes cie = little(uint32_t(0)) + Bytes{1, 'z', 'R', 0, 1, 0x78, 16};

	b.entry(cie + uleb(1000) + Bytes{0x1b} + kEntryRules);
	b.fde(0, kText, 16, {});
	EXPECT_EQ(first_rules(b), "none");

	EhFrameBuilder c;
	c.fde(c.cie(), kText, 16, {}, Bytes{0xff, 0x7f});
	EXPECT_EQ(first_rules(c), "none");
}

TEST(Cie, OfAnotherReturnAddressColumnIsRefused)
{
	EhFrameBuilder b;

	b.entry(little(uint32_t(0)) + Bytes{1, 'z', 'R', 0, 1, 0x78, 30, 1, 0x1b} + kEntryRules);
	b.fde(0, kText, 16, {});
	EXPECT_EQ(first_rules(b), "none");
}

TEST(Cie, ProgramThatDoesNotDecodeCostsItsFunctionsOnly)
{
	EhFrameBuilder b;
	const size_t bad = b.cie({0x0c, 7}), good = b.cie();

	b.fde(bad, kText, 16, {});
	b.fde(good, kText + 16, 16, {});
	Section s(b.image());

	EXPECT_EQ(rules_at(s, kText), "none");
	EXPECT_EQ(rules_at(s, kText + 16), "sp+8 *(c-8) u");
	EXPECT_EQ(s.stats().uncovered_bytes[SFRAME_UNCOVERED_BAD_CFI], 16u);
}

// 64-bit entries: the CIE id has 4 bytes by the book, 8 as some write it.
TEST(Entry, SixtyFourBitFormat)
{
	for (int id_size : {4, 8}) {
		EhFrameBuilder b;
		const size_t cie = b.cie(kEntryRules, {.wide = true, .id_size = id_size});

		b.fde(cie, kText, 16, kPush, {0}, true, id_size);
		b.fde(cie, kText + 16, 16, {});
		Section s(b.image());

		EXPECT_EQ(rules_at(s, kText), "sp+8 *(c-8) u") << id_size;
		EXPECT_EQ(rules_at(s, kText + 1), "sp+16 *(c-8) u") << id_size;
		EXPECT_EQ(rules_at(s, kText + 16), "sp+8 *(c-8) u") << id_size;
	}
}

TEST(Entry, CiePointersThatLeadNowhereOrInCircles)
{
	EhFrameBuilder b;
	const size_t cie = b.cie();
	const size_t fde = b.fde(cie, kText, 16, {});

	b.fde(fde, kText + 16, 16, {});		// an FDE for a CIE
	b.fde(b.size(), kText + 32, 16, {});	// itself
	b.fde(cie + 1, kText + 48, 16, {});	// the middle of a CIE
	b.fde(b.size() + 100, kText + 64, 16, {});	// forwards
	b.fde(cie, kText + 80, 16, {});
	Section s(b.image());

	EXPECT_EQ(rules_at(s, kText), "sp+8 *(c-8) u");
	EXPECT_EQ(rules_at(s, kText + 16), "none");
	EXPECT_EQ(rules_at(s, kText + 48), "none");
	EXPECT_EQ(rules_at(s, kText + 80), "sp+8 *(c-8) u");
	EXPECT_EQ(s.stats().uncovered[SFRAME_UNCOVERED_BAD_CFI], 4u);
}

TEST(Entry, TerminatorEndsTheSection)
{
	EhFrameBuilder b;
	const size_t cie = b.cie();

	b.fde(cie, kText, 16, {});
	b.terminate();
	const size_t end = b.size();
	b.fde(cie, kText + 16, 16, {});
	Section s(b.image());

	EXPECT_EQ(rules_at(s, kText), "sp+8 *(c-8) u");
	EXPECT_EQ(rules_at(s, kText + 16), "none");
	EXPECT_EQ(s.stats().eh_frame_size, end);
}

// Linked in front of other objects, a terminator stands in the middle. The
// search table counts what follows.
TEST(Entry, TerminatorInTheMiddle)
{
	EhFrameBuilder b;
	const size_t cie = b.cie();

	b.fde(cie, kText, 16, {});
	b.terminate();
	b.fde(cie, kText + 16, 16, {});
	b.terminate();
	sframe_image image = b.image();
	const Bytes header = Bytes{1, 0x1b, 0x03, 0x3b} + little(int32_t(kEhFrame - 0x300004)) +
		little(uint32_t(2));

	image.eh_frame_hdr = 0x300000;
	image.eh_frame_hdr_size = header.size();
	image.segment[2] = image.segment[1];
	image.segment[1] = {0x300000, header.size(), header.data(), PF_R, 0};
	image.segment_count = 3;
	Section s(image);

	EXPECT_EQ(rules_at(s, kText + 16), "sp+8 *(c-8) u");
	EXPECT_EQ(s.stats().functions, 2u);
}

TEST(Entry, MissingTerminatorIsTheSegmentsEnd)
{
	EhFrameBuilder b;

	b.fde(b.cie(), kText, 16, {});
	Section s(b.image());

	EXPECT_EQ(s.stats().functions, 1u);
	EXPECT_EQ(s.stats().eh_frame_size, b.size());
}

TEST(Entry, LengthBehindTheEndStopsThere)
{
	EhFrameBuilder b;

	b.fde(b.cie(), kText, 16, {});
	b.section() = b.section() + little(uint32_t(0x1000)) + Bytes(16);
	Section s(b.image());

	EXPECT_EQ(s.stats().functions, 1u);
}

TEST(Entry, NothingUsefulIsAnError)
{
	EhFrameBuilder b;
	sframe_image none = b.image();

	EXPECT_EQ(Section(none).error(), -ENOENT);
	b.section() = Bytes(64, 0xff);
	EXPECT_EQ(Section(b.image()).error(), -ENOEXEC);
}

TEST(Function, EmptyOnesAreSkippedAndCounted)
{
	EhFrameBuilder b;
	const size_t cie = b.cie();

	b.fde(cie, kText, 0, {});
	b.fde(cie, kText, 16, kPush);
	Section s(b.image());

	EXPECT_EQ(s.stats().empty_fdes, 1u);
	EXPECT_EQ(s.stats().functions, 1u);
	EXPECT_EQ(rules_at(s, kText + 1), "sp+16 *(c-8) u");
}

TEST(Function, OutsideOfTextIsDroppedAndCounted)
{
	EhFrameBuilder b;
	const size_t cie = b.cie();

	b.fde(cie, 0x1000, 16, {});
	b.fde(cie, kEhFrame, 8, {});			// readable, not executable
	b.fde(cie, kText + kTextSize - 8, 16, {});	// reaches out
	b.fde(cie, kText, 16, {});
	Section s(b.image());

	EXPECT_EQ(s.stats().uncovered[SFRAME_UNCOVERED_BAD_RANGE], 3u);
	EXPECT_EQ(s.stats().functions, 1u);
	EXPECT_EQ(s.stats().cfi_bytes, 16u);
	EXPECT_EQ(s.stats().entries, 1u);
}

TEST(Function, InEveryExecutableSegment)
{
	EhFrameBuilder b;
	const size_t cie = b.cie();
	const Bytes more(64, 0xcc);

	b.fde(cie, kText, 16, {});
	b.fde(cie, 0x800000, 16, kPush);
	sframe_image image = b.image();
	image.segment[2] = {0x800000, more.size(), more.data(), PF_R | PF_X, 0};
	image.segment_count = 3;
	Section s(image);

	EXPECT_EQ(rules_at(s, kText), "sp+8 *(c-8) u");
	EXPECT_EQ(rules_at(s, 0x800001), "sp+16 *(c-8) u");
}

// Text mapped for execution only: rows need no bytes of it.
TEST(Function, InTextThatCannotBeRead)
{
	EhFrameBuilder b;
	const size_t cie = b.cie();

	b.fde(cie, kText, 10, {});
	b.fde(cie, kText + 16, 16, kPush);
	sframe_image image = b.image();
	image.segment[0].bytes = nullptr;
	Section s(image);

	EXPECT_EQ(rules_at(s, kText), "sp+8 *(c-8) u");
	EXPECT_EQ(rules_at(s, kText + 10), "none");
	EXPECT_EQ(rules_at(s, kText + 17), "sp+16 *(c-8) u");
}

TEST(Function, OutOfOrderAreSorted)
{
	EhFrameBuilder b;
	const size_t cie = b.cie();

	for (unsigned i = 0; i < 1000; i++) {
		const uint64_t slot = (i * 7919u) % 1000u;

		b.fde(cie, kText + slot * 16, 16,
		      Bytes{0x0e} + uleb(8 + slot * 8));
	}
	Section s(b.image());

	for (uint64_t slot = 0; slot < 1000; slot++) {
		const auto row = s.at(kText + slot * 16 + 7);

		ASSERT_TRUE(row);
		EXPECT_EQ(row->cfa.offset, static_cast<int32_t>(8 + slot * 8));
	}
}

// A later start has the bytes, the one before it ends there; equal starts: the
// longest. What is lost is counted, and all bytes add up.
TEST(Function, OverlapsAreResolvedAndCounted)
{
	EhFrameBuilder b;
	const size_t cie = b.cie();
	const auto cfa = [](unsigned char n) { return Bytes{0x0e, n}; };

	b.fde(cie, kText, 100, cfa(16));
	b.fde(cie, kText + 50, 10, cfa(24));
	b.fde(cie, kText + 200, 10, cfa(32));
	b.fde(cie, kText + 200, 20, cfa(40));
	b.fde(cie, kText + 300, 20, cfa(48));
	b.fde(cie, kText + 310, 20, cfa(56));
	Section s(b.image());
	const sframe_synth_stats &stats = s.stats();

	EXPECT_EQ(rules_at(s, kText + 49), "sp+16 *(c-8) u");
	EXPECT_EQ(rules_at(s, kText + 59), "sp+24 *(c-8) u");
	EXPECT_EQ(rules_at(s, kText + 60), "none");
	EXPECT_EQ(rules_at(s, kText + 205), "sp+40 *(c-8) u");
	EXPECT_EQ(rules_at(s, kText + 309), "sp+48 *(c-8) u");
	EXPECT_EQ(rules_at(s, kText + 310), "sp+56 *(c-8) u");
	EXPECT_EQ(stats.uncovered[SFRAME_UNCOVERED_OVERLAP], 3u);
	EXPECT_EQ(stats.uncovered_bytes[SFRAME_UNCOVERED_OVERLAP], 40u);
	EXPECT_EQ(stats.cfi_bytes, 100u + 20 + 30);
	EXPECT_EQ(stats.covered_bytes + 40, stats.cfi_bytes);
}

TEST(Packing, NeighboursShareAnEntry)
{
	EhFrameBuilder b;
	const size_t cie = b.cie();

	for (unsigned i = 0; i < 8; i++)
		b.fde(cie, kText + i * 16, 16, Bytes{0x41, 0x0e, static_cast<unsigned char>(16 + i * 8)});
	Section s(b.image());

	EXPECT_EQ(s.stats().entries, 1u);
	EXPECT_EQ(s.stats().rows, 16u);
	EXPECT_EQ(s.function(0)->row_type, 1);
	EXPECT_EQ(rules_at(s, kText + 128), "none");
}

TEST(Packing, NeverAcrossCodeWithoutCfi)
{
	for (const Bytes &gap : {Bytes{0x90, 0xc3}, Bytes{0xf3, 0x0f, 0x1e, 0xfa}, Bytes{0x00, 0xc3},
				 Bytes(64, 0x90), Bytes{0xeb, 0x01, 0x90}, Bytes{0x48, 0x90}}) {
		EhFrameBuilder b;
		const size_t cie = b.cie();

		std::copy(gap.begin(), gap.end(), b.text().begin() + 16);
		b.fde(cie, kText, 16, {});
		b.fde(cie, kText + 16 + gap.size(), 16, {});
		Section s(b.image());

		EXPECT_EQ(s.stats().entries, 2u);
		EXPECT_EQ(s.stats().padding_bytes, 0u);
		EXPECT_EQ(rules_at(s, kText + 16), "none");
		EXPECT_EQ(rules_at(s, kText + 16 + gap.size()), "sp+8 *(c-8) u");
	}
}

TEST(Packing, AcrossAlignmentPadding)
{
	for (const Bytes &gap : {Bytes(15, 0x90), Bytes(3, 0xcc), Bytes(63, 0x00), Bytes{0x66, 0x90},
				 Bytes{0x0f, 0x1f, 0x00}, Bytes{0x0f, 0x1f, 0x40, 0x00},
				 Bytes{0x0f, 0x1f, 0x44, 0x00, 0x00}, Bytes{0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00},
				 Bytes{0x0f, 0x1f, 0x80, 0, 0, 0, 0}, Bytes{0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0},
				 Bytes{0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0},
				 Bytes{0x90, 0x66, 0x90, 0x00, 0x00}}) {
		EhFrameBuilder b;
		const size_t cie = b.cie();

		std::copy(gap.begin(), gap.end(), b.text().begin() + 16);
		b.fde(cie, kText, 16, {});
		b.fde(cie, kText + 16 + gap.size(), 16, kPush);
		Section s(b.image());

		EXPECT_EQ(s.stats().entries, 1u) << gap.size();
		EXPECT_EQ(s.stats().padding_bytes, gap.size());
		EXPECT_EQ(rules_at(s, kText + 16 + gap.size() + 1), "sp+16 *(c-8) u");
		EXPECT_EQ(s.stats().covered_bytes, 32u);
	}
}

TEST(Packing, EntriesHaveFewRows)
{
	EhFrameBuilder b;
	Bytes program;

	for (unsigned i = 1; i < 2000; i++)
		program = program + Bytes{0x41, 0x0e, static_cast<unsigned char>(8 + 8 * (i % 8))};
	b.fde(b.cie(), kText, 4000, program);
	Section s(b.image());

	for (uint32_t i = 0; const auto fn = s.function(i); i++)
		EXPECT_LE(fn->num_rows, 20u);
	for (uint64_t i = 0; i < 2000; i++)
		ASSERT_EQ(s.at(kText + i)->cfa.offset, static_cast<int32_t>(8 + 8 * (i % 8)));
	EXPECT_EQ(s.stats().covered_bytes, 4000u);
}

TEST(Packing, EqualFunctionsShareTheirRows)
{
	EhFrameBuilder b;
	const size_t cie = b.cie();
	Bytes program;

	for (unsigned i = 0; i < 15; i++)
		program = program + Bytes{0x41, 0x0e, static_cast<unsigned char>(16 + 8 * (i % 5))};
	for (unsigned i = 0; i < 200; i++)
		b.fde(cie, kText + i * 64, 64, program);
	Section s(b.image());

	EXPECT_EQ(s.stats().entries, 200u);
	EXPECT_EQ(s.stats().rows, 16u);
	EXPECT_EQ(rules_at(s, kText + 150 * 64 + 1), "sp+16 *(c-8) u");
}

TEST(Packing, AddressesAreAsWideAsNeeded)
{
	const struct {
		uint32_t at;
		unsigned char width;
	} cases[] = {{255, 1}, {256, 2}, {65535, 2}, {65536, 4}};

	for (const auto &c : cases) {
		EhFrameBuilder b;

		b.fde(b.cie(), kText, 100000, Bytes{0x04} + little(c.at) + Bytes{0x0e, 16});
		Section s(b.image());

		EXPECT_EQ(rules_at(s, kText + c.at - 1), "sp+8 *(c-8) u");
		EXPECT_EQ(rules_at(s, kText + c.at), "sp+16 *(c-8) u");
		ASSERT_EQ(s.stats().entries, 1u);
		EXPECT_EQ(s.function(0)->row_type, c.width) << c.at;
	}
}

TEST(Packing, FlexibleRowsDoNotMakeTheirNeighboursFlexible)
{
	EhFrameBuilder b;
	const size_t cie = b.cie();

	b.fde(cie, kText, 16, {});
	b.fde(cie, kText + 16, 16, Bytes{0x41, 0x0c, 10, 0, 0x41, 0x0c, 7, 8});
	b.fde(cie, kText + 32, 16, {});
	Section s(b.image());

	EXPECT_EQ(s.stats().entries, 3u);
	EXPECT_EQ(s.stats().flex_entries, 1u);
	EXPECT_EQ(s.function(0)->type, 0);
	EXPECT_EQ(s.function(1)->type, 1);
	EXPECT_EQ(s.function(1)->size, 1u);
	EXPECT_EQ(s.function(2)->type, 0);
}

// A hole in a function: what is before and behind it stays.
TEST(Packing, HolesSplitFunctions)
{
	EhFrameBuilder b;

	b.fde(b.cie(), kText, 16, Bytes{0x44, 0x0c, 16, 0, 0x44, 0x0c, 7, 8});
	Section s(b.image());

	EXPECT_EQ(rules_at(s, kText + 3), "sp+8 *(c-8) u");
	EXPECT_EQ(rules_at(s, kText + 4), "none");
	EXPECT_EQ(rules_at(s, kText + 7), "none");
	EXPECT_EQ(rules_at(s, kText + 8), "sp+8 *(c-8) u");
	EXPECT_EQ(s.stats().covered_bytes, 12u);
	EXPECT_EQ(s.stats().uncovered_bytes[SFRAME_UNCOVERED_CFA_REGISTER], 4u);
}

TEST(Packing, HeaderSaysWhatTheDesignPromises)
{
	EhFrameBuilder b;
	sframe_section_info info;

	b.fde(b.cie(), kText, 16, {});
	Section s(b.image());
	ASSERT_EQ(s.error(), 0);
	sframe_decoder_info(s.decoder(), &info);
	EXPECT_EQ(info.version, 3);
	EXPECT_EQ(info.flags, 1);	// sorted, not PC-relative
	EXPECT_EQ(info.abi, 3);
	EXPECT_EQ(info.fixed_ra, -8);
	EXPECT_EQ(info.fixed_fp, 0);
	EXPECT_EQ(info.num_fdes, s.stats().entries);
	EXPECT_EQ(info.num_fres, s.stats().rows);
}

TEST(Synthesis, ChecksTheSizeOfItsArgument)
{
	EhFrameBuilder b;
	sframe_synth synth = {};

	b.fde(b.cie(), kText, 16, {});
	synth.size = sizeof(synth) - 1;
	EXPECT_EQ(sframe_synthesize(&b.image(), &synth), -EINVAL);
}

TEST(Synthesis, ReleaseTwiceIsHarmless)
{
	EhFrameBuilder b;
	sframe_synth synth = {};

	synth.size = sizeof(synth);
	b.fde(b.cie(), kText, 16, {});
	ASSERT_EQ(sframe_synthesize(&b.image(), &synth), 0);
	sframe_synth_release(&synth);
	sframe_synth_release(&synth);
	EXPECT_EQ(synth.section, nullptr);
}

TEST(Synthesis, EveryKindHasAName)
{
	for (int kind = 0; kind < SFRAME_UNCOVERED_COUNT; kind++)
		EXPECT_STRNE(sframe_uncovered_name(kind), "unknown");
	EXPECT_STREQ(sframe_uncovered_name(SFRAME_UNCOVERED_COUNT), "unknown");
}

} // namespace
