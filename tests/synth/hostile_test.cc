// SPDX-License-Identifier: MIT
//
// Damaged and hostile input: whatever the bytes say, a call ends soon, takes
// memory in proportion, and what it makes is a valid section.
#include <gtest/gtest.h>
#include <random>
#include "eh_frame_builder.h"
#include "mapped_file.h"
#include "valid_section.h"

namespace {

void expect_valid(const Section &s)
{
	const char *fault = section_fault(s.result());

	ASSERT_EQ(fault, nullptr) << fault;
}

void expect_harmless(const sframe_image &image)
{
	Section s(image);

	if (s.error()) {
		EXPECT_TRUE(s.error() == -ENOENT || s.error() == -ENOEXEC) << s.error();
		return;
	}
	expect_valid(s);
}

// A real .eh_frame of a few hundred functions, in the image of its file.
class RealEhFrame : public testing::Test {
protected:
	void SetUp() override
	{
		ASSERT_TRUE(file);
		ASSERT_EQ(file.image(&image), 0);
		Section s(image);

		ASSERT_EQ(s.error(), 0);
		size = s.stats().eh_frame_size - image.eh_frame_hdr_size;
		for (uint32_t i = 0; i < image.segment_count; i++)
			if (image.eh_frame - image.segment[i].vaddr < image.segment[i].size)
				bytes = const_cast<unsigned char *>(image.segment[i].bytes) +
					(image.eh_frame - image.segment[i].vaddr);
		ASSERT_NE(bytes, nullptr);
	}

	MappedFile file{"/lib64/ld-linux-x86-64.so.2"};
	sframe_image image;
	unsigned char *bytes = nullptr;
	size_t size = 0;
};

TEST_F(RealEhFrame, CutShortAnywhere)
{
	for (size_t cut = 0; cut < size; cut += 251) {
		image.eh_frame_size = cut ? cut : 1;
		expect_harmless(image);
	}
}

TEST_F(RealEhFrame, WithBytesChanged)
{
	std::mt19937 random(1);

	for (int i = 0; i < 500; i++) {
		const size_t at = random() % size;
		const unsigned char was = bytes[at];

		bytes[at] = static_cast<unsigned char>(random());
		expect_harmless(image);
		if (i % 50)
			bytes[at] = was;	// some damage adds up
	}
}

TEST_F(RealEhFrame, OverwrittenWithNoise)
{
	std::mt19937 random(2);

	for (int i = 0; i < 100; i++) {
		const size_t at = random() % size, n = random() % 64;

		for (size_t k = at; k < at + n && k < size; k++)
			bytes[k] = static_cast<unsigned char>(random());
		expect_harmless(image);
	}
}

TEST(Hostile, MemoryIsBoundedByTheInput)
{
	// Each row another rule: nothing repeats, nothing is shared.
	EhFrameBuilder b;
	Bytes program;

	for (unsigned i = 1; i < 100000; i++) {
		const Bytes op = Bytes{0x41, 0x0e} + uleb(8 + i);

		program.insert(program.end(), op.begin(), op.end());
	}
	b.fde(b.cie(), kText, 200000, program);
	Section s(b.image());

	ASSERT_EQ(s.error(), 0);
	expect_valid(s);
	EXPECT_EQ(s.at(kText + 99999)->cfa.offset, 8 + 99999);
	EXPECT_LE(s.stats().peak_memory, 24 * b.size() + (4u << 20));
}

TEST(Hostile, ManyFunctionsThatAllOverlap)
{
	EhFrameBuilder b;
	const size_t cie = b.cie();

	b.section().reserve(2000000);
	for (unsigned i = 0; i < 20000; i++)
		b.fde(cie, kText + i, 0x80000, Bytes{0x41, 0x0e, static_cast<unsigned char>(i & 0x7f)});
	Section s(b.image());

	ASSERT_EQ(s.error(), 0);
	expect_valid(s);
	EXPECT_EQ(s.stats().uncovered[SFRAME_UNCOVERED_OVERLAP], 19999u);
}

// One expensive expression, many rows: it is evaluated once.
TEST(Hostile, LongExpressionUnderManyRows)
{
	EhFrameBuilder b;
	Bytes expression = {0x77, 0};

	expression.insert(expression.end(), 60000, 0x96);
	Bytes program = Bytes{0x0f} + uleb(expression.size()) + expression;
	program.insert(program.end(), 60000, 0x41);
	b.fde(b.cie(), kText, 60000, program);
	Section s(b.image());

	ASSERT_EQ(s.error(), 0);
	EXPECT_EQ(rules_at(s, kText + 59999), "sp+0 *(c-8) u");
	EXPECT_EQ(s.stats().rows, 1u);
}

TEST(Hostile, ManyCies)
{
	EhFrameBuilder b;

	b.section().reserve(4000000);
	for (unsigned i = 0; i < 20000; i++)
		b.cie();
	const size_t each = b.size() / 20000;

	for (unsigned i = 0; i < 2000; i++)
		b.fde(i * 7919u % 20000u * each, kText + i * 16, 16, {});
	Section s(b.image());

	ASSERT_EQ(s.error(), 0);
	expect_valid(s);
	EXPECT_EQ(s.stats().covered_bytes, 32000u);
}

TEST(Hostile, AdvancesThatOverflow)
{
	EhFrameBuilder b;
	const size_t cie = b.cie(kEntryRules, {.code_align = ~0ull});
	const Bytes far = Bytes{0x1d} + Bytes(8, 0xff);

	b.fde(cie, kText, 16, far + far + far + Bytes{0x0e, 16});
	b.fde(b.cie(), kText + 16, 16, far + far + Bytes{0x0e, 16});
	b.fde(b.cie(kEntryRules, {.data_align = INT64_MIN}), kText + 32, 16, Bytes{0x86, 0x7f});
	expect_harmless(b.image());
}

TEST(Hostile, SegmentsThatLie)
{
	EhFrameBuilder b;

	b.fde(b.cie(), kText, 16, {});
	sframe_image image = b.image();

	image.eh_frame = 0x1234567;
	EXPECT_EQ(Section(image).error(), -ENOENT);
	image = b.image();
	image.segment[1].bytes = nullptr;
	EXPECT_EQ(Section(image).error(), -ENOENT);
	image = b.image();
	image.eh_frame_hdr = ~0ull;
	expect_harmless(image);
	image.eh_frame_hdr = kEhFrame + 1;
	expect_harmless(image);
}

} // namespace
