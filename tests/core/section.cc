// SPDX-License-Identifier: MIT
//
// Which sections are accepted, and why the others are not.
#include "memory.h"
#include "section_builder.h"

#include "elf_section.h"
#include "toolchain.h"

using namespace core_test;

namespace {

constexpr uint64_t AT = 0x400000;

int parse(const std::string &bytes, unsigned int options = 0, sframe_section *out = nullptr,
	  uint64_t func_base = 0)
{
	Memory memory;
	sframe_section section;

	memory.add(AT, bytes);
	return sframe_section_parse(out ? out : &section, AT, bytes.size(), func_base, options, &memory);
}

SectionBuilder good()
{
	SectionBuilder b;

	b.function(0x1000, 0x20).row(0, SP, { 8 }).row(1, SP, { 16, -16 });
	b.function(0x1020, 0x20).row(0, SP, { 8 });
	return b;
}

std::string with_byte(std::string bytes, size_t at, unsigned int value)
{
	bytes[at] = static_cast<char>(value);
	return bytes;
}

std::string with_word(std::string bytes, size_t at, uint32_t value)
{
	memcpy(bytes.data() + at, &value, 4);
	return bytes;
}

TEST(Section, GoodOnesAreAccepted)
{
	sframe_section section;
	SectionBuilder b = good();

	EXPECT_EQ(parse(b.bytes(), 0, &section), SFRAME_OK);
	EXPECT_EQ(section.num_fdes, 2u);
	EXPECT_EQ(section.version, 3);
	b.version = 2;
	EXPECT_EQ(parse(b.bytes()), SFRAME_OK);
	b.flags |= SFRAME_F_FRAME_POINTER | SFRAME_F_FDE_FUNC_START_PCREL;
	EXPECT_EQ(parse(b.bytes()), SFRAME_OK);
	b.auxiliary = std::string(255, 'x');
	EXPECT_EQ(parse(b.bytes(), 0, &section), SFRAME_OK);
	EXPECT_EQ(section.fde_addr, AT + 28 + 255);
}

TEST(Section, WithoutFunctionsIsLegalAndCoversNothing)
{
	Memory memory;
	sframe_section section;
	sframe_row row;

	memory.add(AT, SectionBuilder().bytes());
	EXPECT_EQ(sframe_section_parse(&section, AT, 28, 0, 0, &memory), SFRAME_OK);
	EXPECT_EQ(sframe_lookup(&section, AT, &row, &memory), SFRAME_NOT_COVERED);
}

TEST(Section, ShorterThanAHeaderIsAsGoodAsNone)
{
	const std::string bytes = good().bytes();

	for (size_t size = 0; size < SFRAME_HEADER_SIZE; size++)
		EXPECT_EQ(parse(bytes.substr(0, size)), SFRAME_TOO_SHORT) << size;
}

TEST(Section, UnreadableHeaderIsSaidSo)
{
	Memory memory;
	sframe_section section;

	EXPECT_EQ(sframe_section_parse(&section, AT, 100, 0, 0, &memory), SFRAME_UNREADABLE);
}

TEST(Section, AddressMayNotWrap)
{
	Memory memory;
	sframe_section section;

	EXPECT_EQ(sframe_section_parse(&section, ~UINT64_C(0) - 50, 100, 0, 0, &memory),
		  SFRAME_BAD_EXTENT);
	EXPECT_EQ(memory.reads, 0u);
}

TEST(Section, GarbageHasNoMagic)
{
	EXPECT_EQ(parse(std::string(100, '\0')), SFRAME_BAD_MAGIC);
	EXPECT_EQ(parse(std::string(100, '\xff')), SFRAME_BAD_MAGIC);
}

TEST(Section, OtherVersionsAreRefusedByName)
{
	for (unsigned int version : { 0, 1, 4, 255 })
		EXPECT_EQ(parse(with_byte(good().bytes(), 2, version)), SFRAME_BAD_VERSION) << version;
}

TEST(Section, UnknownFlagsAreRefused)
{
	SectionBuilder b = good();

	for (unsigned int flag : { 0x8, 0x10, 0x20, 0x40, 0x80 })
		EXPECT_EQ(parse(with_byte(b.bytes(), 3, flag | 1)), SFRAME_BAD_FLAGS) << flag;
	// version 3 gave up this one
	EXPECT_EQ(parse(with_byte(b.bytes(), 3, SFRAME_F_FRAME_POINTER | 1)), SFRAME_BAD_FLAGS);
}

TEST(Section, FunctionBaseContradictsPcRelativeStarts)
{
	SectionBuilder b = good();

	EXPECT_EQ(parse(b.bytes(), SFRAME_PARSE_FUNC_BASE), SFRAME_OK);
	b.flags |= SFRAME_F_FDE_FUNC_START_PCREL;
	EXPECT_EQ(parse(b.bytes(), SFRAME_PARSE_FUNC_BASE), SFRAME_BAD_FLAGS);
}

TEST(Section, ForeignByteOrderNeedsToBeAskedFor)
{
	SectionBuilder b = good();

	b.big = true;
	b.abi = SFRAME_ABI_S390X_ENDIAN_BIG;
	EXPECT_EQ(parse(b.bytes()), SFRAME_FOREIGN_ENDIAN);
	EXPECT_EQ(parse(b.bytes(), SFRAME_PARSE_FOREIGN), SFRAME_OK);
}

TEST(Section, AbiAndByteOrderMustAgree)
{
	SectionBuilder b = good();

	for (unsigned int abi : { 0, 1, 4, 5, 255 })
		EXPECT_EQ(parse(with_byte(b.bytes(), 4, abi)), SFRAME_BAD_ABI) << abi;
	b.big = true;
	for (unsigned int abi : { 0, 2, 3, 5 })
		EXPECT_EQ(parse(with_byte(b.bytes(), 4, abi), SFRAME_PARSE_FOREIGN), SFRAME_BAD_ABI)
			<< abi;
}

TEST(Section, Amd64NeedsAFixedReturnAddress)
{
	SectionBuilder b = good();

	b.fixed_ra = 0;
	EXPECT_EQ(parse(b.bytes()), SFRAME_BAD_ABI);
}

TEST(Section, SubSectionsMustLieInside)
{
	const std::string bytes = good().bytes();
	// num_fdes, fre_len, fdeoff, freoff
	for (size_t at : { 8, 16, 20, 24 })
		for (uint32_t value : { 0x1000u, 0x7fffffffu, 0x80000000u, 0xfffffff0u, 0xffffffffu })
			EXPECT_EQ(parse(with_word(bytes, at, value)), SFRAME_BAD_EXTENT)
				<< at << ' ' << value;
	// the index may not reach into the rows
	EXPECT_EQ(parse(with_word(bytes, 24, 31)), SFRAME_BAD_EXTENT);
	EXPECT_EQ(parse(bytes.substr(0, bytes.size() - 1)), SFRAME_BAD_EXTENT);
	// an auxiliary header moves them
	EXPECT_EQ(parse(with_byte(bytes, 7, 8)), SFRAME_BAD_EXTENT);
}

TEST(Section, UnsortedIndexCannotBeSearched)
{
	SectionBuilder b = good();

	b.flags = 0;
	EXPECT_EQ(parse(b.bytes()), SFRAME_UNSORTED);
	EXPECT_EQ(parse(b.bytes(), SFRAME_PARSE_UNSORTED), SFRAME_OK);
	SectionBuilder one;
	one.flags = 0;
	one.function(0x1000, 0x20).row(0, SP, { 8 });
	EXPECT_EQ(parse(one.bytes()), SFRAME_OK);
	// more functions will come: they must be in order
	EXPECT_EQ(parse(one.bytes(), SFRAME_PARSE_GROWABLE), SFRAME_UNSORTED);
}

TEST(Section, ConcatenatedSectionsAreRefused)
{
	std::string first = good().bytes();

	for (size_t align : { 1, 4, 8 }) {
		std::string both = first;
		both.resize((both.size() + align - 1) / align * align);
		EXPECT_EQ(parse(both + first), SFRAME_CONCATENATED) << align;
		SectionBuilder other = good();
		other.version = 2;
		EXPECT_EQ(parse(both + other.bytes()), SFRAME_CONCATENATED) << align;
	}
	// an empty one in front hides the others just as well
	EXPECT_EQ(parse(SectionBuilder().bytes() + first), SFRAME_CONCATENATED);
	// trailing bytes that are no header do no harm
	EXPECT_EQ(parse(first + std::string(100, '\0')), SFRAME_OK);
}

std::string assemble(const toolchain::TempDir &dir, const std::string &name,
		     std::vector<std::string> as)
{
	const std::string source = dir / (name + ".s"), object = dir / (name + ".o");

	toolchain::write_file(source, "\t.text\n\t.globl " + name + "\n" + name +
			      ":\t.cfi_startproc\n\tpush %rbx\n\t.cfi_adjust_cfa_offset 8\n\tnop\n"
			      "\tpop %rbx\n\t.cfi_adjust_cfa_offset -8\n\tret\n\t.cfi_endproc\n");
	as.insert(as.end(), { "-o", object, source });
	const auto result = toolchain::run(as);
	EXPECT_EQ(result.status, 0) << result.errors;
	return object;
}

// binutils before 2.41 write version 1, and pass version 3 on unmerged.
bool binutils_2_40(const char *program)
{
	const auto result = toolchain::run({ program, "--version" });

	return result.status == 0 && result.output.find(" 2.40") != std::string::npos;
}

TEST(Section, Version1FromAnOldAssemblerIsRefused)
{
	if (!binutils_2_40("as"))
		GTEST_SKIP() << "no as 2.40, which writes version 1";
	toolchain::TempDir dir;
	const Section section = elf_section(assemble(dir, "one", { "as", "--gsframe" }), ".sframe");

	ASSERT_TRUE(section.found);
	EXPECT_EQ(section.bytes[2], 1);
	EXPECT_EQ(parse(section.bytes, SFRAME_PARSE_UNSORTED), SFRAME_BAD_VERSION);
}

TEST(Section, OldLinkerConcatenatesNewSections)
{
	if (!binutils_2_40("ld"))
		GTEST_SKIP() << "no ld 2.40, which cannot merge version 3";
	SFRAME_NEED_TOOL(as, "as-2.47");
	toolchain::TempDir dir;
	const std::string out = dir / "both.so";
	const auto result = toolchain::run({ "ld", "-shared", "-o", out,
					     assemble(dir, "one", { as, "--gsframe-3" }),
					     assemble(dir, "two", { as, "--gsframe-3" }) });
	ASSERT_EQ(result.status, 0) << result.errors;
	const Section section = elf_section(out, ".sframe");

	ASSERT_TRUE(section.found);
	EXPECT_EQ(parse(section.bytes), SFRAME_CONCATENATED);
}

TEST(Section, NewLinkerLeavesAnEmptySectionOfOldInput)
{
	SFRAME_NEED_TOOL(as, "as-2.44");
	SFRAME_NEED_TOOL(ld, "ld-2.47");
	toolchain::TempDir dir;
	const std::string out = dir / "old.so";
	const auto result = toolchain::run({ ld, "-shared", "-o", out,
					     assemble(dir, "one", { as, "--gsframe" }) });
	ASSERT_EQ(result.status, 0) << result.errors;
	const Section section = elf_section(out, ".sframe");

	if (!section.found)
		GTEST_SKIP() << "this ld leaves the section out";
	EXPECT_EQ(parse(section.bytes), SFRAME_TOO_SHORT);
}

} // namespace
