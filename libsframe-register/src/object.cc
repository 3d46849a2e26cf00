// SPDX-License-Identifier: MIT
//
// Registering whole objects: choose between an object's own .sframe and a
// synthesized one, and hand every executable segment to the registry.
#include <cerrno>
#include <cstring>
#include <elf.h>
#include <sys/mman.h>
#include <sframe/synth.h>
#include "core.h"
#include "debug.h"
#include "object_table.h"
#include "registry.h"
#include "sys.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace sframe {

namespace {

// Of the functions that .eh_frame_hdr counts, so many are looked up in an
// object's own .sframe: all of a small object's, a spread of a large one's.
constexpr uint32_t kCoverageProbes = 1024;

constexpr size_t kMaxPhdrs = 512;

// Bytes of the object at a link-time range, or nullptr if not in its image.
const unsigned char *image_bytes(const sframe_image &image, uint64_t vaddr, uint64_t size)
{
	for (uint32_t i = 0; i < image.segment_count; i++) {
		const sframe_image_segment &seg = image.segment[i];

		if (seg.bytes && vaddr >= seg.vaddr && vaddr - seg.vaddr <= seg.size &&
		    size <= seg.size - (vaddr - seg.vaddr))
			return seg.bytes + (vaddr - seg.vaddr);
	}
	return nullptr;
}

// The binary search table of .eh_frame_hdr, in the one encoding that linkers
// write: pairs of 32-bit offsets (function, FDE) from the header.
struct FunctionTable {
	const unsigned char *entries = nullptr;
	uint64_t base = 0;	// address of the header
	uint32_t count = 0;

	uint64_t function(uint32_t i) const
	{
		int32_t offset;

		memcpy(&offset, entries + size_t{i} * 8, 4);
		return base + static_cast<uint64_t>(int64_t{offset});
	}
};

FunctionTable function_table(const sframe_image &image)
{
	constexpr unsigned char kVersion = 1, kPointerSdata4Pcrel = 0x1b, kCountUdata4 = 0x03,
				kTableSdata4Datarel = 0x3b;
	FunctionTable table;
	const unsigned char *hdr = image_bytes(image, image.eh_frame_hdr, 12);

	if (!image.eh_frame_hdr || !hdr || hdr[0] != kVersion || hdr[1] != kPointerSdata4Pcrel ||
	    hdr[2] != kCountUdata4 || hdr[3] != kTableSdata4Datarel)
		return table;
	memcpy(&table.count, hdr + 8, 4);
	table.entries = image_bytes(image, image.eh_frame_hdr + 12, uint64_t{table.count} * 8);
	table.base = image.load_bias + image.eh_frame_hdr;
	if (!table.entries)
		table.count = 0;
	return table;
}

// Presence is not coverage: a linker that cannot merge leaves a section for
// the PLT alone. An entry may cover several functions, so entries are not
// counted; functions are looked up.
bool covers_enough(const sframe_section &section, const sframe_image &image)
{
	const FunctionTable table = function_table(image);
	const uint32_t probes = table.count < kCoverageProbes ? table.count : kCoverageProbes;
	uint32_t covered = 0;

	for (uint32_t i = 0; i < probes; i++) {
		const uint32_t at =
			static_cast<uint32_t>(uint64_t{i} * table.count / probes);
		sframe_fde fde;

		covered += sframe_fde_find(&section, table.function(at), &fde, nullptr, nullptr) ==
			   SFRAME_OK;
	}
	return uint64_t{covered} * 10 >= uint64_t{probes} * 9 && section.num_fdes > 0;
}

// Check the object's own section. Its status tells why it is of no use:
// SFRAME_NOT_COVERED if it covers too little.
int check_native(const sframe_image &image)
{
	sframe_section section;

	if (!image.sframe)
		return SFRAME_TOO_SHORT;
	const unsigned char *bytes = image_bytes(image, image.sframe, image.sframe_size);
	if (!bytes)
		return SFRAME_BAD_EXTENT;
	const int status = sframe_section_parse(&section, image.load_bias + image.sframe,
						image.sframe_size, 0, 0, nullptr);
	if (status != SFRAME_OK)
		return status;
	if (section.abi != SFRAME_ABI_AMD64_ENDIAN_LITTLE)
		return SFRAME_UNSUPPORTED_ABI;
	if (section.version == SFRAME_VERSION_2 &&
	    !(section.flags & SFRAME_F_FDE_FUNC_START_PCREL))
		return SFRAME_BAD_FLAGS;
	return covers_enough(section, image) ? SFRAME_OK : SFRAME_NOT_COVERED;
}

// A copy of a synthesized section whose offsets are PC-relative, for a kernel
// that knows no SFRAME_FUNC_BASE.
int rebase_copy(const sframe_cached &made, uint64_t bias, ObjectRecord &record)
{
	const size_t size = made.section_size;
	const long at = sys::call(__NR_mmap, 0, sys::arg(size), PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sframe_header header;

	if (sys::failed(at))
		return static_cast<int>(at);
	auto *copy = reinterpret_cast<unsigned char *>(at);
	memcpy(copy, made.section, size);
	memcpy(&header, copy, sizeof(header));
	header.flags |= SFRAME_F_FDE_FUNC_START_PCREL;
	memcpy(copy, &header, sizeof(header));

	unsigned char *field = copy + SFRAME_HEADER_SIZE + header.auxhdr_len + header.fdeoff;
	for (uint32_t i = 0; i < header.num_fdes; i++, field += SFRAME_FDE_V3_SIZE) {
		int64_t offset;

		memcpy(&offset, field, sizeof(offset));
		offset += static_cast<int64_t>(bias - reinterpret_cast<uint64_t>(field));
		memcpy(field, &offset, sizeof(offset));
	}
	sys::call(__NR_mprotect, at, sys::arg(size), PROT_READ);
	record.private_copy = copy;
	record.private_size = size;
	return 0;
}

int synthesize(const sframe_image &image, bool cache, sframe_cached &made)
{
	if (cache)
		return sframe_cache_get(&image, &made);

	sframe_synth synth = {};
	synth.size = sizeof(synth);
	const int err = sframe_synthesize(&image, &synth);
	if (err)
		return err;
	made.section = synth.section;
	made.section_size = synth.section_size;
	made.mapping_size = synth.mapping_size;
	made.stats = synth.stats;
	return 0;
}

// The section to register for the object: fills record and setup.
int choose_section(const sframe_object &object, const sframe_image &image, ObjectRecord &record,
		   sframe_setup &setup, sframe_object_result &result)
{
	result.native_status = static_cast<uint32_t>(check_native(image));
	if (result.native_status == SFRAME_OK) {
		result.source = SFRAME_SOURCE_NATIVE;
		setup.sframe_start = image.load_bias + image.sframe;
		setup.sframe_size = image.sframe_size;
		return 0;
	}
	if (object.flags & SFRAME_OBJECT_NO_SYNTH || !image.eh_frame)
		return -ENOENT;

	sframe_cached &made = record.made;
	made.size = sizeof(made);
	int err = synthesize(image, !(object.flags & SFRAME_OBJECT_NO_CACHE), made);
	if (err)
		return err;
	result.source = SFRAME_SOURCE_SYNTHESIZED;
	result.from_cache = made.from_cache;
	result.uncovered_bytes = made.stats.cfi_bytes - made.stats.covered_bytes;
	setup.sframe_start = reinterpret_cast<uint64_t>(made.section);
	setup.sframe_size = made.section_size;
	if (sframe_backend_features() & SFRAME_FUNC_BASE) {
		setup.flags = SFRAME_FUNC_BASE;
		setup.func_base = image.load_bias;
		return 0;
	}
	err = rebase_copy(made, image.load_bias, record);
	if (!err)
		setup.sframe_start = reinterpret_cast<uint64_t>(record.private_copy);
	return err;
}

// Register each executable segment; all of them or none. What the kernel has
// already is swapped if @replace.
int register_segments(const sframe_object &object, sframe_setup setup, const Metadata &meta,
		      bool replace)
{
	int done = 0, err = 0;

	for (size_t i = 0; i < object.phnum && !err; i++) {
		const Elf64_Phdr &ph = object.phdr[i];

		if (ph.p_type != PT_LOAD || !(ph.p_flags & PF_X) || !ph.p_memsz)
			continue;
		setup.text_start = object.load_bias + ph.p_vaddr;
		setup.text_size = ph.p_memsz;
		err = registry_add(setup, meta);
		if (err == -EEXIST && replace) {
			sframe_setup better = setup;
			better.flags |= SFRAME_REPLACE;
			err = registry_add(better, meta);
		}
		done += !err;
	}
	if (err && done) {
		setup.text_start = setup.text_size = 0;
		registry_remove(setup);
	}
	if (!err && !done)
		err = -ENOENT;
	return err ? err : done;
}

int register_checked(const sframe_object &object, sframe_object_result &result)
{
	sframe_image image;
	ObjectRecord record = {};
	sframe_setup setup = {};

	// Another copy of the library may have been here: make nothing for naught.
	// What the kernel knows and the registry does not is from exec. It is taken
	// over: its section may be poor, and this process's unwinder must find it too.
	record.key = object_key(object);
	Covering covering;
	const bool known = registry_lookup(record.key.text_start, &covering) == 0;
	if (known && !(object.flags & SFRAME_OBJECT_REPLACE))
		return -EEXIST;

	int err = sframe_image_from_memory(&image, object.load_bias, object.phdr, object.phnum);
	if (!err)
		err = choose_section(object, image, record, setup, result);
	if (err) {
		object_release(record);
		return err;
	}
	record.sframe_start = setup.sframe_start;
	result.section_size = setup.sframe_size;

	Metadata meta;
	meta.load_bias = object.load_bias;
	meta.path = object.path;
	meta.source = static_cast<sframe_source>(result.source);
	meta.build_id = image.build_id;
	meta.build_id_size = image.build_id_size;
	const bool replace = !known || object.flags & SFRAME_OBJECT_REPLACE;
	const int ranges = register_segments(object, setup, meta, replace);
	if (ranges < 0) {
		object_release(record);
		return ranges;
	}
	result.ranges = static_cast<uint32_t>(ranges);
	err = object_remember(record);
	if (err) {
		registry_remove(setup);
		object_release(record);
		return err;
	}
	return ranges;
}

bool makes_sense(const sframe_object *object)
{
	return object && object->size >= sizeof(*object) && object->phdr && object->phnum &&
	       object->phnum <= kMaxPhdrs && !object->reserved &&
	       !(object->flags & ~(SFRAME_OBJECT_NO_SYNTH | SFRAME_OBJECT_NO_CACHE |
				   SFRAME_OBJECT_REPLACE));
}

void count(const sframe_object_result &result, int outcome)
{
	if (outcome >= 0)
		registry_count(result.source == SFRAME_SOURCE_NATIVE ?
				       &sframe_stats::objects_native :
				       &sframe_stats::objects_synthesized);
	else if (outcome != -EEXIST)
		registry_count(&sframe_stats::objects_refused);
}

} // namespace

int object_drop(const ObjectKey &key)
{
	ObjectRecord record;
	sframe_setup setup = {};

	const int err = object_forget(key, &record);
	if (err)
		return err;
	setup.sframe_start = record.sframe_start;
	registry_remove(setup);	// waits for who reads the section
	object_release(record);
	return 0;
}

} // namespace sframe

using namespace sframe;

EXPORT int sframe_register_object(const struct sframe_object *object,
				  struct sframe_object_result *result)
{
	sframe_object_result own = {};

	if (!makes_sense(object) || (result && result->size < sizeof(*result)))
		return -EINVAL;
	const int outcome = register_checked(*object, own);
	count(own, outcome);
	debug_event(outcome < 0 ? "not registered" : "registered", object->path, outcome);
	if (result) {
		own.size = result->size;
		*result = own;
	}
	return outcome;
}

EXPORT int sframe_unregister_object(const struct sframe_object *object)
{
	return makes_sense(object) ? object_drop(object_key(*object)) : -EINVAL;
}
