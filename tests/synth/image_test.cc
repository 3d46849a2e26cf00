// SPDX-License-Identifier: MIT
//
// Images of files and of loaded objects, and every pointer encoding.
#include <gtest/gtest.h>
#include <link.h>
#include <sys/auxv.h>
#include "eh_frame_builder.h"
#include "mapped_file.h"

namespace {

constexpr const char *kLibc = "/lib/x86_64-linux-gnu/libc.so.6";

Bytes section_of(const sframe_image &image)
{
	Section s(image);

	EXPECT_EQ(s.error(), 0);
	return s.error() ? Bytes() : s.bytes();
}

Elf64_Ehdr *header(MappedFile &file) { return reinterpret_cast<Elf64_Ehdr *>(file.bytes()); }

Elf64_Phdr *program_header(MappedFile &file, uint32_t type)
{
	Elf64_Phdr *ph = reinterpret_cast<Elf64_Phdr *>(file.bytes() + header(file)->e_phoff);

	for (int i = 0; i < header(file)->e_phnum; i++)
		if (ph[i].p_type == type)
			return &ph[i];
	return nullptr;
}

struct Loaded {
	std::string name;
	uint64_t bias;
	const Elf64_Phdr *phdr;
	size_t phnum;
};

std::vector<Loaded> loaded_objects()
{
	std::vector<Loaded> out;

	dl_iterate_phdr([](dl_phdr_info *info, size_t, void *data) {
		static_cast<std::vector<Loaded> *>(data)->push_back(
			{info->dlpi_name, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum});
		return 0;
	}, &out);
	return out;
}

TEST(Image, OfAFileHasSegmentsAndBuildId)
{
	MappedFile file(kLibc);
	sframe_image image;

	ASSERT_TRUE(file);
	ASSERT_EQ(file.image(&image), 0);
	EXPECT_EQ(image.machine, unsigned(EM_X86_64));
	EXPECT_EQ(image.relocated, 0u);
	EXPECT_EQ(image.build_id_size, 20u);
	EXPECT_GE(image.segment_count, 3u);
	EXPECT_NE(image.eh_frame_hdr, 0u);
	EXPECT_NE(image.eh_frame, 0u);
}

// What is in memory has been relocated and has no section headers; the section
// must be the same, byte by byte, as the one of the file.
TEST(Image, InMemoryGivesTheSectionOfTheFile)
{
	int compared = 0;

	for (const Loaded &object : loaded_objects()) {
		if (object.name.empty() || object.name[0] != '/')
			continue;
		MappedFile file(object.name.c_str());
		sframe_image memory, disk;

		ASSERT_TRUE(file) << object.name;
		ASSERT_EQ(file.image(&disk), 0) << object.name;
		ASSERT_EQ(sframe_image_from_memory(&memory, object.bias, object.phdr, object.phnum), 0);
		EXPECT_EQ(memory.build_id_size, disk.build_id_size);
		EXPECT_EQ(0, memcmp(memory.build_id, disk.build_id, 20)) << object.name;
		EXPECT_EQ(memory.relocated, 1u);
		EXPECT_TRUE(section_of(memory) == section_of(disk)) << object.name;
		compared++;
	}
	EXPECT_GE(compared, 3);
}

TEST(Image, OfTheVdso)
{
	const uint64_t base = getauxval(AT_SYSINFO_EHDR);

	if (!base)
		GTEST_SKIP() << "no vDSO in this process";
	const Elf64_Ehdr *eh = reinterpret_cast<const Elf64_Ehdr *>(base);
	sframe_image image;

	ASSERT_EQ(sframe_image_from_memory(&image, base,
					   reinterpret_cast<const Elf64_Phdr *>(base + eh->e_phoff),
					   eh->e_phnum), 0);
	Section s(image);

	ASSERT_EQ(s.error(), 0);
	EXPECT_GE(s.stats().functions, 4u);
	EXPECT_EQ(s.stats().covered_bytes, s.stats().cfi_bytes);
	EXPECT_LT(s.stats().eh_frame_size, 8192u);
}

TEST(Image, NeedsNoSectionHeaders)
{
	MappedFile file(kLibc), stripped(kLibc), garbage(kLibc);
	sframe_image whole, without, lied;

	ASSERT_TRUE(file && stripped && garbage);
	header(stripped)->e_shoff = 0;
	header(stripped)->e_shnum = 0;
	header(stripped)->e_shstrndx = 0;
	memset(garbage.bytes() + header(garbage)->e_shoff, 0xa5,
	       garbage.size() - header(garbage)->e_shoff);
	ASSERT_EQ(file.image(&whole), 0);
	ASSERT_EQ(stripped.image(&without), 0);
	ASSERT_EQ(garbage.image(&lied), 0);
	const Bytes expected = section_of(whole);

	EXPECT_TRUE(section_of(without) == expected);
	EXPECT_TRUE(section_of(lied) == expected);
}

TEST(Image, WithoutEhFrameHeaderFallsBackToSections)
{
	MappedFile file(kLibc), other(kLibc);
	sframe_image whole, image;

	ASSERT_TRUE(file && other);
	program_header(other, PT_GNU_EH_FRAME)->p_type = PT_NULL;
	ASSERT_EQ(file.image(&whole), 0);
	ASSERT_EQ(other.image(&image), 0);
	EXPECT_EQ(image.eh_frame_hdr, 0u);
	EXPECT_NE(image.eh_frame_size, 0u);
	EXPECT_TRUE(section_of(image) == section_of(whole));

	// And without section headers there is nothing to go by.
	header(other)->e_shnum = 0;
	EXPECT_EQ(other.image(&image), -ENOENT);
}

TEST(Image, RefusesWhatIsNotAnObjectOfThisMachine)
{
	const auto changed = [](auto change) {
		MappedFile file(kLibc);
		sframe_image image;

		change(file);
		return file.image(&image);
	};
	sframe_image image;

	EXPECT_EQ(sframe_image_from_file(&image, "#!/bin/sh\n", 10), -ENOEXEC);
	EXPECT_EQ(sframe_image_from_file(&image, "", 0), -ENOEXEC);
	EXPECT_EQ(changed([](MappedFile &f) { f.bytes()[0] = 0; }), -ENOEXEC);
	EXPECT_EQ(changed([](MappedFile &f) { f.bytes()[EI_CLASS] = ELFCLASS32; }), -ENOEXEC);
	EXPECT_EQ(changed([](MappedFile &f) { f.bytes()[EI_DATA] = ELFDATA2MSB; }), -ENOEXEC);
	EXPECT_EQ(changed([](MappedFile &f) { header(f)->e_machine = EM_AARCH64; }), -ENOEXEC);
	EXPECT_EQ(changed([](MappedFile &f) { header(f)->e_type = ET_REL; }), -ENOEXEC);
	EXPECT_EQ(changed([](MappedFile &f) { header(f)->e_phentsize = 1; }), -ENOEXEC);
	EXPECT_EQ(changed([](MappedFile &f) { header(f)->e_phoff = f.size() - 8; }), -ENOEXEC);
	EXPECT_EQ(changed([](MappedFile &f) { header(f)->e_phoff = ~0ull; }), -ENOEXEC);
	EXPECT_EQ(changed([](MappedFile &f) { header(f)->e_phnum = 0xffff; }), -E2BIG);
	EXPECT_EQ(changed([](MappedFile &f) { header(f)->e_phnum = 0; }), -ENOEXEC);
	EXPECT_EQ(changed([](MappedFile &f) { program_header(f, PT_LOAD)->p_filesz = ~0ull; }),
		  -ENOEXEC);
	EXPECT_EQ(changed([](MappedFile &f) { program_header(f, PT_LOAD)->p_vaddr = ~0ull - 4096; }),
		  -ENOEXEC);
}

TEST(Image, TruncatedFileIsReadAsFarAsItGoes)
{
	MappedFile file(kLibc);
	sframe_image image;

	ASSERT_TRUE(file);
	for (size_t size = 0; size < file.size(); size += file.size() / 97 + 1) {
		const int err = sframe_image_from_file(&image, file.bytes(), size);

		if (err) {
			EXPECT_TRUE(err == -ENOEXEC || err == -ENOENT) << err;
			continue;
		}
		Section s(image);
		EXPECT_TRUE(s.error() == 0 || s.error() == -ENOENT || s.error() == -ENOEXEC);
	}
}

TEST(Image, TooManySegments)
{
	std::vector<Elf64_Phdr> phdr(SFRAME_IMAGE_MAX_SEGMENTS + 1);
	sframe_image image;

	for (size_t i = 0; i < phdr.size(); i++)
		phdr[i] = {PT_LOAD, PF_R, 0, i << 20, 0, 4096, 4096, 4096};
	EXPECT_EQ(sframe_image_from_memory(&image, 0, phdr.data(), phdr.size()), -E2BIG);
	// Few enough, but without an .eh_frame.
	EXPECT_EQ(sframe_image_from_memory(&image, 0, phdr.data(), 2), -ENOENT);
}

TEST(Image, SegmentsOutOfOrderAreRefused)
{
	Elf64_Phdr phdr[2] = {{PT_LOAD, PF_R, 0, 0x2000, 0, 4096, 4096, 4096},
			      {PT_LOAD, PF_R, 0, 0x1000, 0, 4096, 4096, 4096}};
	sframe_image image;

	EXPECT_EQ(sframe_image_from_memory(&image, 0, phdr, 2), -ENOEXEC);
}

// An .eh_frame_hdr in front of a section made by hand, as object in memory.
class Header : public testing::Test {
protected:
	static constexpr uint64_t kHeader = kEhFrame - 0x100;

	sframe_image with_header(const Bytes &header, bool relocated = false, uint64_t bias = 0)
	{
		b.fde(b.cie(), kText, 16, {});
		b.terminate();
		memory = Bytes(0x100) + b.section();
		std::copy(header.begin(), header.end(), memory.begin());

		const Elf64_Phdr phdr[3] = {
			{PT_LOAD, PF_R | PF_X, 0, kText, 0, b.text().size(), b.text().size(), 1},
			{PT_LOAD, PF_R, 0, kHeader, 0, memory.size(), memory.size(), 1},
			{PT_GNU_EH_FRAME, PF_R, 0, kHeader, 0, header.size(), header.size(), 4},
		};
		Bytes file(0x1000);
		Elf64_Ehdr eh = {};

		memcpy(eh.e_ident, ELFMAG, SELFMAG);
		eh.e_ident[EI_CLASS] = ELFCLASS64;
		eh.e_ident[EI_DATA] = ELFDATA2LSB;
		eh.e_machine = EM_X86_64;
		eh.e_type = ET_DYN;
		eh.e_phentsize = sizeof(Elf64_Phdr);
		eh.e_phoff = sizeof(eh);
		eh.e_phnum = 3;
		memcpy(file.data(), &eh, sizeof(eh));
		contents = file + b.text() + memory;
		Elf64_Phdr placed[3];

		memcpy(placed, phdr, sizeof(phdr));
		placed[0].p_offset = 0x1000;
		placed[1].p_offset = 0x1000 + b.text().size();
		memcpy(contents.data() + sizeof(eh), placed, sizeof(placed));

		sframe_image image;

		error = sframe_image_from_file(&image, contents.data(), contents.size());
		image.relocated = relocated;
		image.load_bias = bias;
		return image;
	}

	EhFrameBuilder b;
	Bytes memory, contents;
	int error = 0;
};

TEST_F(Header, PointsToEhFrameInEveryEncoding)
{
	const int64_t distance = 0x100 - 4;
	const struct {
		unsigned char encoding;
		Bytes pointer;
	} cases[] = {
		{0x00, little(kEhFrame)},
		{0x01, uleb(kEhFrame)},
		{0x03, little(static_cast<uint32_t>(kEhFrame))},
		{0x04, little(kEhFrame)},
		{0x09, sleb(kEhFrame)},
		{0x0b, little(static_cast<int32_t>(kEhFrame))},
		{0x0c, little(kEhFrame)},
		{0x12, little(static_cast<uint16_t>(distance))},
		{0x1a, little(static_cast<int16_t>(distance))},
		{0x1b, little(static_cast<int32_t>(distance))},
		{0x1c, little(distance)},
		{0x3b, little(int32_t(0x100))},
		{0x32, little(uint16_t(0x100))},
	};

	for (const auto &c : cases) {
		b = EhFrameBuilder();
		const sframe_image image = with_header(Bytes{1, c.encoding, 0xff, 0xff} + c.pointer);

		EXPECT_EQ(error, 0) << unsigned(c.encoding);
		EXPECT_EQ(image.eh_frame, kEhFrame) << unsigned(c.encoding);
		Section s(image);
		EXPECT_EQ(rules_at(s, kText), "sp+8 *(c-8) u") << unsigned(c.encoding);
	}
}

TEST_F(Header, OfAnotherVersionOrEncodingIsNoHelp)
{
	with_header(Bytes{2, 0x1b, 0xff, 0xff} + little(int32_t(0xfc)));
	EXPECT_EQ(error, -ENOENT);
	with_header(Bytes{1, 0xff, 0xff, 0xff} + little(int32_t(0xfc)));
	EXPECT_EQ(error, -ENOENT);
	with_header(Bytes{1, 0x1f, 0xff, 0xff} + little(int32_t(0xfc)));
	EXPECT_EQ(error, -ENOENT);
}

// Functions' addresses: the encoding is in the CIE's augmentation data.
class Encoding : public testing::Test {
protected:
	std::string rules(unsigned char encoding, const Bytes &start, const Bytes &size,
			  const Bytes &before = {}, uint64_t relocated_by = 0)
	{
		EhFrameBuilder b;
		const size_t cie = b.cie(kEntryRules, {.data = {encoding}});

		b.raw_fde(cie, before + start + size, {});
		sframe_image image = b.image();

		image.relocated = relocated_by != 0;
		image.load_bias = relocated_by;
		// Bytes stay where they are: segments are found by link-time address.
		Section s(image);
		return rules_at(s, kText) + "|" + rules_at(s, kText + 15) + "|" +
			rules_at(s, kText + 16);
	}
	// Address of the first byte after a FDE's CIE pointer.
	static uint64_t field()
	{
		EhFrameBuilder b;

		b.cie(kEntryRules, {.data = {0}});
		return kEhFrame + b.size() + 8;
	}

	const std::string good = "sp+8 *(c-8) u|sp+8 *(c-8) u|none";
	const std::string nothing = "none|none|none";
};

TEST_F(Encoding, Absolute)
{
	EXPECT_EQ(rules(0x00, little(kText), little(uint64_t(16))), good);
	EXPECT_EQ(rules(0x04, little(kText), little(uint64_t(16))), good);
	EXPECT_EQ(rules(0x0c, little(kText), little(uint64_t(16))), good);
	EXPECT_EQ(rules(0x03, little(uint32_t(kText)), little(uint32_t(16))), good);
	EXPECT_EQ(rules(0x0b, little(uint32_t(kText)), little(uint32_t(16))), good);
	EXPECT_EQ(rules(0x01, uleb(kText), uleb(16)), good);
	EXPECT_EQ(rules(0x09, sleb(kText), sleb(16)), good);
}

TEST_F(Encoding, RelativeToTheField)
{
	const int64_t d = static_cast<int64_t>(kText - field());

	EXPECT_EQ(rules(0x10, little(d), little(uint64_t(16))), good);
	EXPECT_EQ(rules(0x1b, little(int32_t(d)), little(uint32_t(16))), good);
	EXPECT_EQ(rules(0x1c, little(d), little(uint64_t(16))), good);
	EXPECT_EQ(rules(0x19, sleb(d), sleb(16)), good);
	EXPECT_EQ(rules(0x13, little(uint32_t(d)), little(uint32_t(16))), nothing);
}

TEST_F(Encoding, Aligned)
{
	const Bytes pad(-field() & 7);

	EXPECT_EQ(rules(0x50, little(kText), little(uint64_t(16)), pad), good);
}

// The pointer is the address of a word that holds the address.
TEST_F(Encoding, Indirect)
{
	EhFrameBuilder b;
	const uint64_t slot = kText + 0x800;

	memcpy(b.text().data() + 0x800, &kText, 8);
	const size_t cie = b.cie(kEntryRules, {.data = {0x80}});
	b.raw_fde(cie, little(slot) + little(uint64_t(16)), {});
	Section s(b.image());

	EXPECT_EQ(rules_at(s, kText), "sp+8 *(c-8) u");
	EXPECT_EQ(rules(0x80, little(uint64_t(8)), little(uint64_t(16))), nothing);
}

TEST_F(Encoding, AbsoluteInMemoryCarriesTheLoadBias)
{
	const uint64_t bias = 0x7f0000000000;

	EXPECT_EQ(rules(0x00, little(kText + bias), little(uint64_t(16)), {}, bias), good);
	// An object that nobody relocated, such as the vDSO.
	EXPECT_EQ(rules(0x00, little(kText), little(uint64_t(16)), {}, bias), good);
	const int64_t d = static_cast<int64_t>(kText - field());
	EXPECT_EQ(rules(0x1b, little(int32_t(d)), little(uint32_t(16)), {}, bias), good);
}

TEST_F(Encoding, WithoutABaseOrUnknownIsRefused)
{
	for (unsigned char encoding : {0x20, 0x30, 0x40, 0x60, 0x70, 0x05, 0x0d, 0xff})
		EXPECT_EQ(rules(encoding, little(kText), little(uint64_t(16))), nothing)
			<< unsigned(encoding);
}

} // namespace
