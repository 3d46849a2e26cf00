// SPDX-License-Identifier: MIT
//
// What sframe_register() and sframe_unregister() promise, errno by errno.
#include <gtest/gtest.h>

#include <cerrno>

#include <sframe/register.h>
#include <sframe/registry.h>
#include "registry.h"
#include "section.h"

namespace {

struct SemanticsTest : testing::Test {
	Text text{ 1 << 20 };
	std::vector<uint8_t> section = make_section(4), other = make_section(2);

	// Each test leaves an empty registry.
	void TearDown() override
	{
		for (auto *s : { &section, &other }) {
			const sframe_setup all = { (uint64_t)s->data(), s->size(), 0, 0, 0, 0 };
			sframe_unregister(&all, sizeof(all));
		}
	}

	int add(uint64_t offset, uint64_t size, uint64_t flags = 0, uint64_t base = 0)
	{
		const sframe_setup setup = setup_of(section, text.at + offset, size, flags, base);
		return sframe_register(&setup, sizeof(setup));
	}
	int add_other(uint64_t offset, uint64_t size, uint64_t flags = 0)
	{
		const sframe_setup setup = setup_of(other, text.at + offset, size, flags);
		return sframe_register(&setup, sizeof(setup));
	}
	int drop(uint64_t offset, uint64_t size)
	{
		const sframe_setup setup = setup_of(section, text.at + offset, size);
		return sframe_unregister(&setup, sizeof(setup));
	}
	bool covered(uint64_t offset)
	{
		auto range = sized<sframe_range>();
		return sframe_find(text.at + offset, &range) == 0;
	}
	uint64_t live()
	{
		auto stats = sized<sframe_stats>();
		sframe_get_stats(&stats);
		return stats.live;
	}
	int with_section(const std::vector<uint8_t> &bytes)
	{
		const sframe_setup setup = setup_of(bytes, text.at, 0x100);
		const int err = sframe_register(&setup, sizeof(setup));
		if (!err)
			sframe_unregister(&setup, sizeof(setup));
		return err;
	}
};

TEST_F(SemanticsTest, ShorterThanVersion0IsEinval)
{
	const sframe_setup setup = setup_of(section, text.at, 0x100);
	for (size_t size = 0; size < SFRAME_SETUP_SIZE_VER0; size++) {
		EXPECT_EQ(sframe_register(&setup, size), -EINVAL);
		EXPECT_EQ(sframe_unregister(&setup, size), -EINVAL);
	}
}

TEST_F(SemanticsTest, Version0HasNoFlags)
{
	sframe_setup setup = setup_of(section, text.at, 0x100);
	setup.flags = ~UINT64_C(0);
	EXPECT_EQ(sframe_register(&setup, SFRAME_SETUP_SIZE_VER0), 0);
	EXPECT_EQ(sframe_unregister(&setup, SFRAME_SETUP_SIZE_VER0), 0);
}

TEST_F(SemanticsTest, LongerIsAcceptedWhileItsTailIsZero)
{
	struct {
		sframe_setup setup;
		unsigned char tail[64];
	} longer = {};
	longer.setup = setup_of(section, text.at, 0x100);
	EXPECT_EQ(sframe_register(&longer.setup, sizeof(longer)), 0);
	EXPECT_EQ(sframe_unregister(&longer.setup, sizeof(longer)), 0);
	longer.tail[63] = 1;
	EXPECT_EQ(sframe_register(&longer.setup, sizeof(longer)), -E2BIG);
	EXPECT_EQ(sframe_unregister(&longer.setup, sizeof(longer)), -E2BIG);
	EXPECT_EQ(sframe_register(&longer.setup, 4097), -E2BIG);
	EXPECT_EQ(live(), 0u);
}

TEST_F(SemanticsTest, BetweenTwoVersionsTheRestCountsAsZero)
{
	sframe_setup setup = setup_of(section, text.at, 0x100, 0, 1);	// would be EINVAL
	EXPECT_EQ(sframe_register(&setup, 40), 0);
}

TEST_F(SemanticsTest, UnreadableSetupIsEfault)
{
	const auto at = [](uint64_t address) { return (const sframe_setup *)address; };
	EXPECT_EQ(sframe_register(nullptr, 48), -EFAULT);
	EXPECT_EQ(sframe_register(at(~UINT64_C(0) - 8), 48), -EFAULT);
	EXPECT_EQ(sframe_unregister(at(8), 48), -EFAULT);

	// Its last bytes on a page that is not there.
	const long page = sysconf(_SC_PAGESIZE);
	auto *two = (char *)mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(two + page, page);
	const sframe_setup setup = setup_of(section, text.at, 0x100);
	memcpy(two + page - 32, &setup, 32);
	EXPECT_EQ(sframe_register((sframe_setup *)(two + page - 32), 48), -EFAULT);
	EXPECT_EQ(sframe_register((sframe_setup *)(two + page - 32), 32), 0);
	munmap(two, page);
}

TEST_F(SemanticsTest, FlagsAndFuncBase)
{
	EXPECT_EQ(add(0, 0x100, UINT64_C(1) << 3), -EINVAL);
	EXPECT_EQ(add(0, 0x100, UINT64_C(1) << 63), -EINVAL);
	EXPECT_EQ(add(0, 0x100, 0, 0x1000), -EINVAL);
	EXPECT_EQ(add(0, 0x100, SFRAME_FUNC_BASE, text.at), 0);
	sframe::Covering covering;
	ASSERT_EQ(sframe::registry_lookup(text.at, &covering), 0);
	EXPECT_EQ(covering.section.base, text.at);
}

TEST_F(SemanticsTest, EmptyAndWrappingRangesAreEinval)
{
	EXPECT_EQ(add(0, 0), -EINVAL);
	EXPECT_EQ(add(0, ~UINT64_C(0)), -EINVAL);
	EXPECT_EQ(add(0, UINT64_C(0) - text.at), -EINVAL);
	sframe_setup setup = setup_of(section, text.at, 0x100);
	setup.sframe_size = ~UINT64_C(0);
	EXPECT_EQ(sframe_register(&setup, sizeof(setup)), -EINVAL);
}

TEST_F(SemanticsTest, NeighboursBothRegister)
{
	EXPECT_EQ(add(0x100, 0x100), 0);
	EXPECT_EQ(add(0x200, 0x100), 0);
	EXPECT_EQ(add(0, 0x100), 0);
	EXPECT_TRUE(covered(0) && covered(0x1ff) && covered(0x200) && covered(0x2ff));
	EXPECT_FALSE(covered(0x300));
}

TEST_F(SemanticsTest, OverlapIsEexistAndNothingChanges)
{
	ASSERT_EQ(add(0x100, 0x100), 0);
	const uint64_t generation = sframe_generation();
	for (const auto &[at, size] : { std::pair{ 0x100, 0x100 }, { 0, 0x101 }, { 0x1ff, 1 },
					{ 0x140, 0x10 }, { 0, 0x1000 } })
		EXPECT_EQ(add_other(at, size), -EEXIST) << at;
	EXPECT_EQ(live(), 1u);
	EXPECT_EQ(sframe_generation(), generation);
	auto range = sized<sframe_range>();
	ASSERT_EQ(sframe_find(text.at + 0x150, &range), 0);
	EXPECT_EQ(range.sframe_start, (uint64_t)section.data());
}

TEST_F(SemanticsTest, ReplaceTakesExactlyThatRange)
{
	EXPECT_EQ(add_other(0x100, 0x100, SFRAME_REPLACE), -ENOENT);
	ASSERT_EQ(add(0x100, 0x100), 0);
	EXPECT_EQ(add_other(0x100, 0x80, SFRAME_REPLACE), -ENOENT);
	EXPECT_EQ(add_other(0x80, 0x180, SFRAME_REPLACE), -ENOENT);
	const uint64_t generation = sframe_generation();
	EXPECT_EQ(add_other(0x100, 0x100, SFRAME_REPLACE), 0);
	EXPECT_GT(sframe_generation(), generation);
	auto range = sized<sframe_range>();
	ASSERT_EQ(sframe_find(text.at + 0x150, &range), 0);
	EXPECT_EQ(range.sframe_start, (uint64_t)other.data());
	EXPECT_EQ(range.flags, 0u);
	EXPECT_EQ(drop(0x100, 0x100), -ENOENT) << "the old section has no range any more";
	EXPECT_EQ(live(), 1u);
}

TEST_F(SemanticsTest, UnregisterBySectionDropsAllItsRanges)
{
	for (int i = 0; i < 50; i++)
		ASSERT_EQ(add(i * 0x100, 0x80), 0);
	ASSERT_EQ(add_other(0x80, 0x80), 0);
	EXPECT_EQ(drop(0x300, 0x80), 0);
	EXPECT_FALSE(covered(0x300));
	EXPECT_TRUE(covered(0x400));
	const sframe_setup all = { (uint64_t)section.data(), 0, 0, 0, 0, 0 };
	EXPECT_EQ(sframe_unregister(&all, sizeof(all)), 0);
	EXPECT_EQ(live(), 1u);
	EXPECT_TRUE(covered(0x80));
	EXPECT_EQ(sframe_unregister(&all, sizeof(all)), -ENOENT);
}

TEST_F(SemanticsTest, UnregisterOfWhatIsNotThereIsEnoent)
{
	EXPECT_EQ(drop(0, 0x100), -ENOENT);
	ASSERT_EQ(add(0, 0x100), 0);
	EXPECT_EQ(drop(0, 0x80), -ENOENT);
	EXPECT_EQ(drop(1, 0xff), -ENOENT);
	const sframe_setup wrong = setup_of(other, text.at, 0x100);
	EXPECT_EQ(sframe_unregister(&wrong, sizeof(wrong)), -ENOENT);
	EXPECT_TRUE(covered(0));
}

TEST_F(SemanticsTest, UnreadableSectionIsEfault)
{
	const long page = sysconf(_SC_PAGESIZE);
	auto *memory = (uint8_t *)mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(memory, section.data(), section.size());
	sframe_setup setup = { (uint64_t)memory, (uint64_t)(3 * page), text.at, 0x100, 0, 0 };
	EXPECT_EQ(sframe_register(&setup, sizeof(setup)), 0);
	sframe_unregister(&setup, sizeof(setup));
	munmap(memory + page, page);
	EXPECT_EQ(sframe_register(&setup, sizeof(setup)), -EFAULT) << "a hole";
	setup.sframe_size = (uint64_t)page + 1;
	EXPECT_EQ(sframe_register(&setup, sizeof(setup)), -EFAULT) << "the last byte";
	mprotect(memory, page, PROT_NONE);
	setup.sframe_size = section.size();
	EXPECT_EQ(sframe_register(&setup, sizeof(setup)), -EFAULT) << "not readable";
	setup.sframe_start = 0;
	EXPECT_EQ(sframe_register(&setup, sizeof(setup)), -EFAULT) << "null";
	munmap(memory, 4 * page);
}

TEST_F(SemanticsTest, SectionBehindTheEndOfItsFileIsEfault)
{
	const long page = sysconf(_SC_PAGESIZE);
	const int fd = memfd_create("short", MFD_CLOEXEC);
	ASSERT_EQ(write(fd, section.data(), section.size()), (ssize_t)section.size());
	auto *memory = mmap(nullptr, 2 * page, PROT_READ, MAP_PRIVATE, fd, 0);
	const sframe_setup setup = { (uint64_t)memory, (uint64_t)page + 64, text.at, 0x100, 0, 0 };
	EXPECT_EQ(sframe_register(&setup, sizeof(setup)), -EFAULT);
	munmap(memory, 2 * page);
	close(fd);
}

TEST_F(SemanticsTest, TextMustBeExecutable)
{
	const sframe_setup data = setup_of(section, (uint64_t)section.data(), 16);
	EXPECT_EQ(sframe_register(&data, sizeof(data)), -EINVAL);
	mprotect((void *)(text.at + 0x2000), 0x1000, PROT_READ);
	EXPECT_EQ(add(0x1000, 0x1001), -EINVAL) << "its end is not";
	munmap((void *)(text.at + 0x2000), 0x1000);
	EXPECT_EQ(add(0x1000, 0x2001), -EINVAL) << "a hole";
	EXPECT_EQ(add(0x1000, 0x1000), 0);
}

TEST_F(SemanticsTest, AnonymousAndMemfdTextIsAsGoodAsAFile)
{
	const int fd = memfd_create("code", MFD_CLOEXEC);
	ASSERT_EQ(ftruncate(fd, 4096), 0);
	void *code = mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	const sframe_setup setup = setup_of(section, (uint64_t)code, 4096);
	EXPECT_EQ(sframe_register(&setup, sizeof(setup)), 0);
	EXPECT_EQ(sframe_unregister(&setup, sizeof(setup)), 0);
	munmap(code, 4096);
	close(fd);
}

TEST_F(SemanticsTest, OnlyVersion3AndPcRelativeVersion2)
{
	EXPECT_EQ(with_section(make_section(0, 3)), 0) << "no functions is legal";
	EXPECT_EQ(with_section(make_section(0, 2, 5)), 0);
	EXPECT_EQ(with_section(make_section(0, 2, 1)), -EINVAL);
	EXPECT_EQ(with_section(make_section(0, 1, 1)), -EINVAL);
	EXPECT_EQ(with_section(make_section(0, 4)), -EINVAL);
	EXPECT_EQ(with_section(make_section(0, 3, 0x81)), -EINVAL);
}

TEST_F(SemanticsTest, DamagedSectionsAreEinval)
{
	std::vector<uint8_t> bytes = make_section(4);
	bytes[0] ^= 1;
	EXPECT_EQ(with_section(bytes), -EINVAL) << "magic";
	bytes = make_section(4);
	bytes[8] = 200;
	EXPECT_EQ(with_section(bytes), -EINVAL) << "more functions than bytes";
	bytes = make_section(4);
	bytes[4] = SFRAME_ABI_AARCH64_ENDIAN_LITTLE;
	EXPECT_EQ(with_section(bytes), -EINVAL) << "another machine's";
	bytes = make_section(4);
	bytes.resize(SFRAME_HEADER_SIZE - 1);
	EXPECT_EQ(with_section(bytes), -EINVAL) << "shorter than a header";
	bytes = make_section(1);
	const std::vector<uint8_t> second = make_section(1);
	bytes.insert(bytes.end(), second.begin(), second.end());
	EXPECT_EQ(with_section(bytes), -EINVAL) << "concatenated";
}

TEST_F(SemanticsTest, GrowableKeepsItsRoom)
{
	std::vector<uint8_t> grown = make_section(8);
	const uint32_t two = 2;
	memcpy(&grown[8], &two, 4);
	const sframe_setup setup = setup_of(grown, text.at, 0x100, SFRAME_GROWABLE);
	ASSERT_EQ(sframe_register(&setup, sizeof(setup)), 0);
	sframe::Covering covering;
	ASSERT_EQ(sframe::registry_lookup(text.at, &covering), 0);
	EXPECT_EQ(covering.section.num_fdes, 2u);
	EXPECT_EQ(covering.section.max_fdes, 8u);
	EXPECT_EQ(sframe_unregister(&setup, sizeof(setup)), 0);
}

TEST_F(SemanticsTest, FindTellsWhatWasRegistered)
{
	const unsigned char id[20] = { 1, 2, 3, 4, 5 };
	sframe::Metadata meta;
	meta.load_bias = 0x7000;
	meta.path = "/usr/lib/libexample.so.1";
	meta.source = SFRAME_SOURCE_NATIVE;
	meta.build_id = id;
	meta.build_id_size = 20;
	ASSERT_EQ(sframe::registry_add(setup_of(section, text.at, 0x100, SFRAME_FUNC_BASE, 0x99), meta), 0);
	auto range = sized<sframe_range>();
	ASSERT_EQ(sframe_find(text.at + 0xff, &range), 0);
	EXPECT_EQ(range.text_start, text.at);
	EXPECT_EQ(range.text_end, text.at + 0x100);
	EXPECT_EQ(range.sframe_size, section.size());
	EXPECT_EQ(range.func_base, 0x99u);
	EXPECT_EQ(range.flags, SFRAME_FUNC_BASE);
	EXPECT_EQ(range.load_bias, 0x7000u);
	EXPECT_EQ(range.source, (uint32_t)SFRAME_SOURCE_NATIVE);
	EXPECT_EQ(range.version, 3u);
	EXPECT_EQ(range.build_id_size, 20u);
	EXPECT_EQ(memcmp(range.build_id, id, 20), 0);
	char path[64];
	EXPECT_EQ(sframe_range_path(range.id, path, sizeof(path)), (int)strlen(meta.path));
	EXPECT_STREQ(path, meta.path);
	EXPECT_EQ(sframe_range_path(range.id, path, 5), (int)strlen(meta.path));
	EXPECT_STREQ(path, "/usr");
	EXPECT_EQ(sframe_range_path(range.id, nullptr, 0), (int)strlen(meta.path));
}

TEST_F(SemanticsTest, FindRefusesAShortStructure)
{
	auto range = sized<sframe_range>(-1);
	EXPECT_EQ(sframe_find(text.at, &range), -EINVAL);
	auto stats = sized<sframe_stats>(-1);
	EXPECT_EQ(sframe_get_stats(&stats), -EINVAL);
}

TEST_F(SemanticsTest, PathsUpToPathMax)
{
	std::string longest(4095, 'p');
	sframe::Metadata meta;
	meta.path = longest.c_str();
	ASSERT_EQ(sframe::registry_add(setup_of(section, text.at, 0x100), meta), 0);
	auto range = sized<sframe_range>();
	ASSERT_EQ(sframe_find(text.at, &range), 0);
	char path[5000];
	EXPECT_EQ(sframe_range_path(range.id, path, sizeof(path)), 4095);
	EXPECT_EQ(path, longest);
}

TEST_F(SemanticsTest, AReloadGetsANewId)
{
	auto range = sized<sframe_range>();
	uint64_t last = 0;
	for (int i = 0; i < 1000; i++) {
		ASSERT_EQ(add(0, 0x100), 0);
		ASSERT_EQ(sframe_find(text.at, &range), 0);
		EXPECT_GT(range.id, last);
		last = range.id;
		ASSERT_EQ(drop(0, 0x100), 0);
		EXPECT_EQ(sframe_range_path(last, nullptr, 0), -ENOENT);
	}
	EXPECT_EQ(sframe_range_path(0, nullptr, 0), -ENOENT);
	EXPECT_EQ(sframe_range_path(~UINT64_C(0), nullptr, 0), -ENOENT);
}

} // namespace
