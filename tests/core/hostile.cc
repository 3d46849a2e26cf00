// SPDX-License-Identifier: MIT
//
// Damaged sections: each truncation and each corruption of a single byte of
// real ones, and bytes that change while they are read. Nothing may be read
// outside of the section or past the stated bound; what an answer says must
// hold together. The bytes lie in memory of exactly their size, so that
// AddressSanitizer sees what the accessor does not.
#include "memory.h"
#include "section_builder.h"

#include "elf_section.h"
#include "toolchain.h"

#include <sframe/decode.h>

using namespace core_test;

namespace {

constexpr uint64_t AT = 0x400000;

// Looks up all that a section claims to cover, as far as it makes sense.
class Reader {
public:
	explicit Reader(const std::string &bytes) { memory.add(AT, bytes); }

	int read_all(unsigned int options = 0)
	{
		const uint64_t size = memory.regions[0].bytes.size();
		sframe_section section;
		const int status = sframe_section_parse(&section, AT, size, 0, options, &memory);

		EXPECT_LE(memory.reads, 4u);
		if (status)
			return status;
		look_up(section, 0);
		look_up(section, ~UINT64_C(0));
		for (uint32_t i = 0; i < section.num_fdes; i++)
			read_function(section, i);
		return status;
	}

	Memory memory;

private:
	void read_function(const sframe_section &section, uint32_t index)
	{
		sframe_fde fde;

		if (sframe_fde_get(&section, index, &fde, &memory))
			return;
		for (uint32_t offset : { 0u, 1u, 4u, 11u, fde.size / 2, fde.size - 1, fde.size })
			look_up(section, fde.start + offset);
		uint64_t cursor = fde.row_addr;
		sframe_row row;
		for (uint32_t i = 0; i < fde.num_rows; i++)
			if (sframe_row_next(&section, &fde, &cursor, &row, &memory))
				break;
	}

	void look_up(const sframe_section &section, uint64_t pc)
	{
		sframe_row row;

		memory.reads = 0;
		const int status = sframe_lookup(&section, pc, &row, &memory);
		ASSERT_LE(memory.reads, SFRAME_MAX_LOOKUP_READS);
		ASSERT_LE(status, SFRAME_UNREADABLE);
		if (status == SFRAME_OK) {
			ASSERT_LT(row.start, row.end);
		}
	}
};

// The decoder of the library, which has an accessor of its own.
void decode_all(const std::string &bytes)
{
	const std::vector<char> exact(bytes.begin(), bytes.end());
	sframe_decoder *dec;
	sframe_section_info info;
	sframe_function fn;
	sframe_decoded_row row;

	if (sframe_decoder_new(&dec, exact.data(), exact.size(), AT, 0, nullptr))
		return;
	sframe_decoder_info(dec, &info);
	for (uint32_t i = 0; i < info.num_fdes; i++) {
		if (sframe_decoder_function(dec, i, &fn))
			continue;
		uint64_t cursor = 0;
		uint32_t rows = 0;
		while (sframe_decoder_row(dec, &fn, &cursor, &row) == 1)
			ASSERT_LE(++rows, SFRAME_MAX_ROWS);
		sframe_decoder_lookup(dec, fn.start + fn.size / 2, &row);
		sframe_decoder_find(dec, fn.start, &fn);
	}
	sframe_decoder_free(dec);
}

struct Sample {
	const char *name;
	const char *as, *ld;
	std::vector<std::string> flags;
	std::string bytes() const
	{
		toolchain::TempDir dir;
		const std::string source = dir / "small.s", object = dir / "a.o", shared = dir / "a.so";

		toolchain::write_file(source,
			"\t.text\n\t.globl f\nf:\t.cfi_startproc\n\tpush %rbp\n"
			"\t.cfi_adjust_cfa_offset 8\n\t.cfi_rel_offset rbp, 0\n\tcall g@plt\n\tpop %rbp\n"
			"\t.cfi_adjust_cfa_offset -8\n\t.cfi_restore rbp\n\tret\n\t.cfi_endproc\n"
			"h:\t.cfi_startproc\n\tsub $4096, %rsp\n\t.cfi_adjust_cfa_offset 4096\n"
			"\t.skip 300, 0x90\n\tadd $4096, %rsp\n\t.cfi_adjust_cfa_offset -4096\n\tret\n"
			"\t.cfi_endproc\n"
			"_start:\t.cfi_startproc\n\t.cfi_undefined rip\n\thlt\n\t.cfi_endproc\n");
		std::vector<std::string> assemble = { toolchain::find(as), "-o", object, source };
		assemble.insert(assemble.end(), flags.begin(), flags.end());
		for (const auto &command : { assemble, { toolchain::find(ld), "-shared", "-z", "lazy",
							 "-o", shared, object } })
			if (toolchain::run(command).status)
				return "";
		return elf_section(shared, ".sframe").bytes;
	}
};

std::string flexible_section()
{
	SectionBuilder b;

	b.function(0x1000, 0x40).signal_frame()
		.flex(0, { 7 << 3 | 3, 160, 7 << 3 | 3, 168, 7 << 3 | 3, 120 })
		.flex(4, { 6 << 3 | 3, -8, 0, 6 << 3 | 3, 0 });
	b.function(0x1040, 0x40).repeating(16).row(0, SP, { 8 }).row(11, SP, { 16 });
	b.function(0x1080, 0x10);
	return b.bytes();
}

class Hostile : public testing::TestWithParam<Sample> {
public:
	void SetUp() override
	{
		if (!GetParam().as) {
			bytes = flexible_section();
			return;
		}
		if (toolchain::find(GetParam().as).empty())
			GTEST_SKIP() << GetParam().as << ": run tests/toolchain/fetch";
		bytes = GetParam().bytes();
		ASSERT_EQ(Reader(bytes).read_all(), SFRAME_OK);
	}
	std::string bytes;
};

INSTANTIATE_TEST_SUITE_P(Hostile, Hostile,
	testing::Values(Sample{ "Version3", "as-2.47", "ld-2.47", { "--gsframe-3" } },
			Sample{ "Version2", "as-2.44", "ld-2.44", { "--gsframe" } },
			Sample{ "Flexible", nullptr, nullptr, {} }),
	[](const auto &info) { return std::string(info.param.name); });

TEST_P(Hostile, EachTruncation)
{
	for (size_t size = 0; size < bytes.size(); size++) {
		const std::string cut = bytes.substr(0, size);

		EXPECT_NE(Reader(cut).read_all(), SFRAME_OK) << size;
		decode_all(cut);
	}
}

TEST_P(Hostile, EachCorruptionOfAByte)
{
	for (size_t at = 0; at < bytes.size(); at++)
		for (int flip = 1; flip < 256; flip++) {
			std::string damaged = bytes;

			damaged[at] = static_cast<char>(damaged[at] ^ flip);
			Reader(damaged).read_all();
			Reader(damaged).read_all(SFRAME_PARSE_GROWABLE);
			decode_all(damaged);
			if (HasFatalFailure())
				FAIL() << "byte " << at << " flipped by " << flip;
		}
}

// Each byte in turn changes after each single read: what was checked may be
// gone when it is used.
TEST_P(Hostile, BytesThatChangeBetweenReads)
{
	for (size_t at = 0; at < bytes.size(); at++)
		for (unsigned int flip : { 0x01u, 0x80u, 0xffu }) {
			Reader reader(bytes);

			reader.memory.after_read = [at, flip](Memory &m) {
				m.regions[0].bytes[at] = static_cast<char>(m.regions[0].bytes[at] ^ flip);
			};
			reader.read_all();
			if (HasFatalFailure())
				FAIL() << "byte " << at << " flipped by " << flip;
		}
}

TEST(HostileSizes, HugeCountsCostNothing)
{
	std::string bytes = flexible_section();

	for (size_t at = 8; at < 28; at += 4)
		for (uint32_t value : { 0xffffffffu, 0x80000000u, 0x7fffffffu, 0x10000000u }) {
			std::string damaged = bytes;
			memcpy(damaged.data() + at, &value, 4);
			Reader(damaged).read_all();
			decode_all(damaged);
		}
}

} // namespace
