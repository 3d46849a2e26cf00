// SPDX-License-Identifier: MIT
//
// The judge finds faults that are planted in a good section: one test per kind
// of fault, planted in every entry in turn.
#include <gtest/gtest.h>
#include <cstring>
#include <sframe_format.h>
#include "sframectl.h"

namespace {

const char kFile[] = "/usr/bin/bash";

// A section that `synth -o` wrote, open to damage.
class GoodSection {
public:
	GoodSection()
	{
		made_ = sframectl({ "synth", "-o", tmp_ / "good", kFile });
		bytes_ = read_whole(tmp_ / "good");
		if (bytes_.size() >= sizeof(header_))
			memcpy(&header_, bytes_.data(), sizeof(header_));
	}

	bool made() const { return made_.exited(0) && bytes_.size() > sizeof(header_); }
	uint32_t entries() const { return header_.num_fdes; }

	size_t entry_at(uint32_t i) const
	{
		return SFRAME_HEADER_SIZE + header_.auxhdr_len + header_.fdeoff +
		       i * SFRAME_FDE_V3_SIZE;
	}

	sframe_fde_v3 entry(uint32_t i) const
	{
		sframe_fde_v3 fde;

		memcpy(&fde, bytes_.data() + entry_at(i), sizeof(fde));
		return fde;
	}

	// Where an entry's attributes are; its first row follows.
	size_t attributes_at(uint32_t i) const
	{
		return SFRAME_HEADER_SIZE + header_.auxhdr_len + header_.freoff +
		       entry(i).func_start_fre_off;
	}

	sframe_fde_attr_v3 attributes(uint32_t i) const
	{
		sframe_fde_attr_v3 attr;

		memcpy(&attr, bytes_.data() + attributes_at(i), sizeof(attr));
		return attr;
	}

	// Where the first row's info byte is.
	size_t row_info_at(uint32_t i) const
	{
		return attributes_at(i) + SFRAME_FDE_ATTR_V3_SIZE +
		       (size_t{1} << SFRAME_FDE_INFO_FRE_TYPE(attributes(i).info));
	}

	template <typename T> void add(std::string &bytes, size_t at, T value) const
	{
		T old;

		memcpy(&old, bytes.data() + at, sizeof(T));
		old = static_cast<T>(old + value);
		memcpy(bytes.data() + at, &old, sizeof(T));
	}

	std::string bytes() const { return bytes_; }

	Outcome judge(const std::string &bytes, const Strings &options = {}) const
	{
		Strings command = { "check", "--json", "--section", tmp_ / "bad", kFile };

		write_whole(tmp_ / "bad", bytes);
		command.insert(command.end(), options.begin(), options.end());
		return sframectl(command);
	}

private:
	TemporaryDirectory tmp_;
	Outcome made_;
	std::string bytes_;
	sframe_header header_ = {};
};

class Planted : public testing::Test {
protected:
	void SetUp() override { ASSERT_TRUE(good.made()); }

	// Entries spread over the whole section.
	std::vector<uint32_t> entries() const
	{
		std::vector<uint32_t> all;
		const uint32_t step = getenv("SFRAME_TEST_FULL") ? 1 : good.entries() / 40 + 1;

		for (uint32_t i = 0; i < good.entries(); i += step)
			all.push_back(i);
		return all;
	}

	void expect_found(const std::string &bytes, uint32_t entry)
	{
		const Outcome o = good.judge(bytes);

		EXPECT_TRUE(o.exited(1)) << "entry " << entry << ": " << o.out << o.err;
		EXPECT_GT(number(o.out, "disagreements"), 0) << "entry " << entry;
	}

	GoodSection good;
};

TEST_F(Planted, NothingIsFoundInTheGoodSection)
{
	const Outcome o = good.judge(good.bytes());

	EXPECT_TRUE(o.exited(0)) << o.out << o.err;
	EXPECT_EQ(number(o.out, "disagreements"), 0);
	EXPECT_EQ(number(o.out, "missed"), 0);
}

TEST_F(Planted, AnOffsetInARow)
{
	for (const uint32_t i : entries()) {
		std::string bytes = good.bytes();
		const size_t info = good.row_info_at(i);

		if (!SFRAME_FRE_INFO_DATAWORD_COUNT(bytes[info]))
			continue;	// outermost: no offset to alter
		// The CFA's offset: the first word, in flexible entries the second.
		const bool flexible = SFRAME_FDE_INFO2_TYPE(good.attributes(i).info2);
		const size_t width = size_t{1} << SFRAME_FRE_INFO_DATAWORD_SIZE(bytes[info]);
		good.add<uint8_t>(bytes, info + 1 + (flexible ? width : 0), 8);
		expect_found(bytes, i);
	}
}

TEST_F(Planted, AnotherBaseRegister)
{
	for (const uint32_t i : entries()) {
		std::string bytes = good.bytes();
		const size_t info = good.row_info_at(i);

		if (!SFRAME_FRE_INFO_DATAWORD_COUNT(bytes[info]) ||
		    SFRAME_FDE_INFO2_TYPE(good.attributes(i).info2))
			continue;
		bytes[info] = static_cast<char>(bytes[info] ^ 1);
		expect_found(bytes, i);
	}
}

TEST_F(Planted, ADroppedRow)
{
	for (const uint32_t i : entries()) {
		std::string bytes = good.bytes();

		if (good.attributes(i).num_fres < 2)
			continue;
		good.add<uint16_t>(bytes, good.attributes_at(i), -1);
		expect_found(bytes, i);
	}
}

TEST_F(Planted, AShiftedEntry)
{
	for (const uint32_t i : entries()) {
		std::string bytes = good.bytes();

		// One row says the same everywhere: a byte more or less shows elsewhere.
		if (good.attributes(i).num_fres < 2)
			continue;
		good.add<int64_t>(bytes, good.entry_at(i), 1);
		good.add<uint32_t>(bytes, good.entry_at(i) + 8, -1);
		expect_found(bytes, i);
	}
}

TEST_F(Planted, ASignalFrame)
{
	for (const uint32_t i : entries()) {
		std::string bytes = good.bytes();

		bytes[good.attributes_at(i) + 2] ^= static_cast<char>(0x80);
		expect_found(bytes, i);
	}
}

TEST_F(Planted, AnEntryTooLong)
{
	std::string bytes = good.bytes();

	good.add<uint32_t>(bytes, good.entry_at(0) + 8, 64);
	expect_found(bytes, 0);
}

TEST_F(Planted, CodeBehindEhFrame)
{
	std::string bytes = good.bytes();
	const uint32_t last = good.entries() - 1;

	// .fini and read-only data follow the last function.
	good.add<uint32_t>(bytes, good.entry_at(last) + 8, 4096);
	expect_found(bytes, last);
}

TEST_F(Planted, AMissingEntryIsMissed)
{
	std::string bytes = good.bytes();
	const uint32_t last = good.entries() - 1;

	// The count alone: the index then ends one entry earlier.
	good.add<uint32_t>(bytes, 8, -1);
	const Outcome o = good.judge(bytes);
	EXPECT_TRUE(o.exited(1)) << o.out << o.err;
	EXPECT_GT(number(o.out, "missed"), 0);
	EXPECT_LE(number(o.out, "missed_bytes"), good.entry(last).func_size);
	EXPECT_EQ(number(o.out, "disagreements"), 0);
}

TEST_F(Planted, ADamagedEntry)
{
	std::string bytes = good.bytes();
	const uint32_t outside = 0x7fffffff;

	memcpy(bytes.data() + good.entry_at(1) + 12, &outside, sizeof(outside));
	expect_found(bytes, 1);
}

TEST_F(Planted, EveryByteFindsIt)
{
	std::string bytes = good.bytes();

	for (uint32_t i = 0; i < good.entries(); i++)
		if (good.attributes(i).num_fres >= 2) {
			good.add<uint16_t>(bytes, good.attributes_at(i), -1);
			break;
		}
	const Outcome o = good.judge(bytes, { "--every-byte" });
	EXPECT_TRUE(o.exited(1)) << o.err;
	EXPECT_GT(number(o.out, "disagreements"), 0);
}

TEST_F(Planted, FindingsAreLimitedAndCounted)
{
	TemporaryDirectory tmp;
	std::string bytes = good.bytes();

	for (uint32_t i = 0; i < good.entries(); i++)
		bytes[good.attributes_at(i) + 2] |= static_cast<char>(0x80);
	write_whole(tmp / "bad", bytes);
	const Outcome o = sframectl({ "check", "--limit", "3", "--section", tmp / "bad", kFile });

	EXPECT_TRUE(o.exited(1)) << o.err;
	EXPECT_TRUE(contains(o.out, ".eh_frame says")) << o.out;
	EXPECT_TRUE(contains(o.out, " more; --limit")) << o.out;
	size_t described = 0;
	for (size_t at = 0; (at = o.out.find(".eh_frame says", at)) != o.out.npos; at++)
		described++;
	EXPECT_EQ(described, 3U);
}

} // namespace
