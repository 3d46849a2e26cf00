// SPDX-License-Identifier: MIT
//
// Registering whole objects: when an object's own .sframe is good enough, and
// what happens when it is not.
#include <cerrno>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/mman.h>
#include <vector>
#include <sframe/register.h>
#include <sframe/registry.h>
#include <sframe/synth.h>
#include "core.h"
#include "registry.h"

namespace {

constexpr uint32_t kGnuSframe = 0x6474e554;

struct Headers {
	uint64_t bias = 0;
	std::vector<Elf64_Phdr> phdr;
};

Headers loaded(const char *name)
{
	struct Wanted {
		const char *name;
		Headers headers;
	} wanted = { name, {} };

	dl_iterate_phdr(
		[](struct dl_phdr_info *info, size_t, void *arg) {
			auto *want = static_cast<Wanted *>(arg);

			if (!strstr(info->dlpi_name, want->name))
				return 0;
			want->headers.bias = info->dlpi_addr;
			want->headers.phdr.assign(info->dlpi_phdr,
						  info->dlpi_phdr + info->dlpi_phnum);
			return 1;
		},
		&wanted);
	return wanted.headers;
}

// libc as it is loaded here, with an .sframe of its own: the synthesized one,
// turned PC-relative as a linker would write it, in a segment of its own.
class Object : public testing::Test {
protected:
	void SetUp() override
	{
		headers_ = loaded("/libc.so.6");
		ASSERT_FALSE(headers_.phdr.empty());
	}
	void TearDown() override
	{
		const sframe_object object = describe();

		sframe_unregister_object(&object);
		if (section_)
			munmap(section_, room_);
	}
	static void TearDownTestSuite() { sframe::registry_exit(); }

	sframe_object describe(uint32_t flags = SFRAME_OBJECT_NO_CACHE) const
	{
		sframe_object object = {};

		object.size = sizeof(object);
		object.load_bias = headers_.bias;
		object.phdr = headers_.phdr.data();
		object.phnum = headers_.phdr.size();
		object.path = "libc under test";
		object.flags = flags;
		return object;
	}

	int register_it(uint32_t flags = SFRAME_OBJECT_NO_CACHE)
	{
		const sframe_object object = describe(flags);

		result_ = {};
		result_.size = sizeof(result_);
		return sframe_register_object(&object, &result_);
	}

	// @size: what PT_GNU_SFRAME says; 0: as much as there is.
	void give_native(size_t size = 0)
	{
		sframe_image image;
		sframe_synth synth = {};

		synth.size = sizeof(synth);
		ASSERT_EQ(sframe_image_from_memory(&image, headers_.bias, headers_.phdr.data(),
						   headers_.phdr.size()), 0);
		ASSERT_EQ(sframe_synthesize(&image, &synth), 0);
		size_ = synth.section_size;
		room_ = 2 * size_ + 4096;
		section_ = static_cast<unsigned char *>(mmap(nullptr, room_, PROT_READ | PROT_WRITE,
							     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		ASSERT_NE(section_, MAP_FAILED);
		memcpy(section_, synth.section, size_);
		sframe_synth_release(&synth);
		make_relative();
		add_header(PT_LOAD, room_);
		add_header(kGnuSframe, size ? size : size_);
	}

	void make_relative()
	{
		sframe_header *header = this->header();
		unsigned char *field = section_ + SFRAME_HEADER_SIZE + header->fdeoff;

		header->flags |= SFRAME_F_FDE_FUNC_START_PCREL;
		for (uint32_t i = 0; i < header->num_fdes; i++, field += SFRAME_FDE_V3_SIZE) {
			int64_t offset;

			memcpy(&offset, field, sizeof(offset));
			offset += static_cast<int64_t>(headers_.bias -
						       reinterpret_cast<uint64_t>(field));
			memcpy(field, &offset, sizeof(offset));
		}
	}

	void add_header(uint32_t type, size_t size)
	{
		Elf64_Phdr ph = {};

		ph.p_type = type;
		ph.p_flags = PF_R;
		ph.p_vaddr = reinterpret_cast<uint64_t>(section_) - headers_.bias;
		ph.p_filesz = ph.p_memsz = size;
		headers_.phdr.push_back(ph);
	}

	sframe_header *header() { return reinterpret_cast<sframe_header *>(section_); }

	// Something is wrong with the object's own: another is made, and it says why.
	void expect_synthesized(int status)
	{
		ASSERT_EQ(register_it(), 1);
		EXPECT_EQ(result_.source, SFRAME_SOURCE_SYNTHESIZED);
		EXPECT_EQ(result_.native_status, static_cast<uint32_t>(status))
			<< sframe_status_name(static_cast<int>(result_.native_status));
		EXPECT_EQ(source_at(reinterpret_cast<uint64_t>(printf)), SFRAME_SOURCE_SYNTHESIZED);
	}

	static int source_at(uint64_t pc)
	{
		sframe_range range = {};

		range.size = sizeof(range);
		const int err = sframe_find(pc, &range);
		return err ? err : static_cast<int>(range.source);
	}

	Headers headers_;
	sframe_object_result result_ = {};
	unsigned char *section_ = nullptr;
	size_t size_ = 0, room_ = 0;
};

TEST_F(Object, WithoutItsOwnIsSynthesized) { expect_synthesized(SFRAME_TOO_SHORT); }

TEST_F(Object, ItsOwnIsTaken)
{
	give_native();
	ASSERT_EQ(register_it(), 1);
	EXPECT_EQ(result_.source, SFRAME_SOURCE_NATIVE);
	EXPECT_EQ(result_.native_status, SFRAME_OK);
	EXPECT_EQ(source_at(reinterpret_cast<uint64_t>(printf)), SFRAME_SOURCE_NATIVE);
}

TEST_F(Object, PresenceIsNotCoverage)
{
	give_native();
	header()->num_fdes = 5;
	expect_synthesized(SFRAME_NOT_COVERED);
}

TEST_F(Object, NoFunctionsIsNoCoverage)
{
	give_native();
	header()->num_fdes = 0;
	expect_synthesized(SFRAME_NOT_COVERED);
}

TEST_F(Object, ShorterThanAHeader)
{
	give_native(SFRAME_HEADER_SIZE - 1);
	expect_synthesized(SFRAME_TOO_SHORT);
}

TEST_F(Object, TwoConcatenated)
{
	give_native();
	const size_t second = (size_ + 7) & ~size_t{7};
	memcpy(section_ + second, section_, size_);
	headers_.phdr.back().p_memsz = headers_.phdr.back().p_filesz = second + size_;
	expect_synthesized(SFRAME_CONCATENATED);
}

TEST_F(Object, ObsoleteVersion)
{
	give_native();
	header()->version = 1;
	expect_synthesized(SFRAME_BAD_VERSION);
}

TEST_F(Object, Garbage)
{
	give_native();
	memset(section_, 0x5a, size_);
	expect_synthesized(SFRAME_BAD_MAGIC);
}

TEST_F(Object, NotSorted)
{
	give_native();
	header()->flags &= static_cast<uint8_t>(~SFRAME_F_FDE_SORTED);
	expect_synthesized(SFRAME_UNSORTED);
}

TEST_F(Object, ForAnotherMachine)
{
	give_native();
	header()->abi_arch = SFRAME_ABI_AARCH64_ENDIAN_LITTLE;
	expect_synthesized(SFRAME_UNSUPPORTED_ABI);
}

TEST_F(Object, HugeCounts)
{
	give_native();
	header()->num_fdes = 0xffffffff;
	expect_synthesized(SFRAME_BAD_EXTENT);
}

TEST_F(Object, OutsideOfEverySegment)
{
	give_native();
	headers_.phdr.back().p_vaddr += room_;
	expect_synthesized(SFRAME_BAD_EXTENT);
}

TEST_F(Object, ItsOwnOrNothing)
{
	EXPECT_EQ(register_it(SFRAME_OBJECT_NO_SYNTH), -ENOENT);
	EXPECT_EQ(source_at(reinterpret_cast<uint64_t>(printf)), -ENOENT);
}

TEST_F(Object, TwiceIsRefusedAndChangesNothing)
{
	ASSERT_EQ(register_it(), 1);
	EXPECT_EQ(register_it(), -EEXIST);
	EXPECT_EQ(source_at(reinterpret_cast<uint64_t>(printf)), SFRAME_SOURCE_SYNTHESIZED);
}

TEST_F(Object, PoorerIsReplacedIfAsked)
{
	ASSERT_EQ(register_it(), 1);
	const sframe_object object = describe();
	ASSERT_EQ(sframe_unregister_object(&object), 0);

	// Somebody registered an empty section for this text.
	give_native();
	const uint32_t functions = header()->num_fdes;
	header()->num_fdes = 0;
	sframe_setup setup = {};
	setup.sframe_start = reinterpret_cast<uint64_t>(section_);
	setup.sframe_size = size_;
	for (const Elf64_Phdr &ph : headers_.phdr)
		if (ph.p_type == PT_LOAD && ph.p_flags & PF_X) {
			setup.text_start = headers_.bias + ph.p_vaddr;
			setup.text_size = ph.p_memsz;
		}
	ASSERT_EQ(sframe_register(&setup, SFRAME_SETUP_SIZE_VER0), 0);
	EXPECT_EQ(register_it(), -EEXIST);
	EXPECT_EQ(register_it(SFRAME_OBJECT_NO_CACHE | SFRAME_OBJECT_REPLACE), 1);
	EXPECT_EQ(source_at(reinterpret_cast<uint64_t>(printf)), SFRAME_SOURCE_SYNTHESIZED);
	header()->num_fdes = functions;
}

TEST_F(Object, UnregisteredOnce)
{
	ASSERT_EQ(register_it(), 1);
	const sframe_object object = describe();
	EXPECT_EQ(sframe_unregister_object(&object), 0);
	EXPECT_EQ(sframe_unregister_object(&object), -ENOENT);
	EXPECT_EQ(source_at(reinterpret_cast<uint64_t>(printf)), -ENOENT);
}

TEST_F(Object, CountsAreKept)
{
	sframe_stats before = {}, after = {};

	before.size = after.size = sizeof(before);
	ASSERT_EQ(sframe_get_stats(&before), 0);
	ASSERT_EQ(register_it(), 1);
	register_it(SFRAME_OBJECT_NO_SYNTH);	// there already: no refusal
	ASSERT_EQ(sframe_get_stats(&after), 0);
	EXPECT_EQ(after.objects_synthesized, before.objects_synthesized + 1);
	EXPECT_EQ(after.objects_refused, before.objects_refused);
	EXPECT_EQ(after.live, before.live + 1);
}

TEST_F(Object, NonsenseIsRefused)
{
	sframe_object object = describe();
	sframe_object_result small = {};

	EXPECT_EQ(sframe_register_object(nullptr, nullptr), -EINVAL);
	small.size = sizeof(small) - 1;
	EXPECT_EQ(sframe_register_object(&object, &small), -EINVAL);
	object.phnum = 0;
	EXPECT_EQ(sframe_register_object(&object, nullptr), -EINVAL);
	object = describe();
	object.size--;
	EXPECT_EQ(sframe_register_object(&object, nullptr), -EINVAL);
	object = describe(0x80);
	EXPECT_EQ(sframe_register_object(&object, nullptr), -EINVAL);

	// Segments in the wrong order, and none at all.
	for (size_t i = 0; i + 1 < headers_.phdr.size(); i++)
		if (headers_.phdr[i].p_type == PT_LOAD && headers_.phdr[i + 1].p_type == PT_LOAD) {
			std::swap(headers_.phdr[i], headers_.phdr[i + 1]);
			break;
		}
	EXPECT_EQ(register_it(), -ENOEXEC);
	for (Elf64_Phdr &ph : headers_.phdr)
		ph.p_type = PT_NULL;
	EXPECT_EQ(register_it(), -ENOEXEC);
}

} // namespace
