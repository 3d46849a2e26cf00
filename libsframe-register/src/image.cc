// SPDX-License-Identifier: MIT
//
// struct sframe_image from a loaded object or a file. Program headers decide;
// section headers are asked only where there is no PT_GNU_EH_FRAME.
#include "image.h"

#include <cerrno>
#include <elf.h>
#include "eh_pointer.h"

#ifndef PT_GNU_SFRAME
#define PT_GNU_SFRAME 0x6474e554
#endif

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace sframe {

const sframe_image_segment *image_segment(const sframe_image &image, uint64_t vaddr,
					  uint64_t size)
{
	for (uint32_t i = 0; i < image.segment_count; i++) {
		const sframe_image_segment &seg = image.segment[i];

		if (vaddr >= seg.vaddr && vaddr - seg.vaddr < seg.size &&
		    size <= seg.size - (vaddr - seg.vaddr))
			return &seg;
	}
	return nullptr;
}

Reader image_reader(const sframe_image &image, uint64_t vaddr)
{
	const sframe_image_segment *seg = image_segment(image, vaddr, 1);

	if (!seg || !seg->bytes)
		return {};
	return {seg->bytes + (vaddr - seg->vaddr), seg->size - (vaddr - seg->vaddr)};
}

bool image_is_text(const sframe_image &image, uint64_t vaddr, uint64_t size)
{
	const sframe_image_segment *seg = image_segment(image, vaddr, size);

	return seg && seg->flags & PF_X;
}

// Where a segment's bytes are: in memory, or in a file mapped somewhere.
struct Source {
	const unsigned char *file;	// nullptr: in memory
	uint64_t size;
	uint64_t load_bias;
};

static int add_segment(sframe_image &image, const Source &source, const Elf64_Phdr &ph)
{
	if (ph.p_memsz == 0)
		return 0;
	if (ph.p_filesz > ph.p_memsz || ph.p_vaddr + ph.p_memsz < ph.p_vaddr)
		return -ENOEXEC;
	if (image.segment_count == SFRAME_IMAGE_MAX_SEGMENTS)
		return -E2BIG;
	sframe_image_segment &seg = image.segment[image.segment_count];

	if (image.segment_count) {
		const sframe_image_segment &last = image.segment[image.segment_count - 1];

		if (ph.p_vaddr < last.vaddr + last.size)
			return -ENOEXEC;
	}
	seg.vaddr = ph.p_vaddr;
	seg.size = ph.p_filesz;
	seg.flags = ph.p_flags & (PF_R | PF_W | PF_X);
	seg.bytes = nullptr;
	seg.reserved = 0;
	if (!source.file) {
		// Text that is mapped for execution only cannot be read.
		if (ph.p_flags & PF_R)
			seg.bytes = reinterpret_cast<const unsigned char *>(source.load_bias +
									   ph.p_vaddr);
	} else {
		if (ph.p_offset >= source.size)
			seg.size = 0;
		else if (seg.size > source.size - ph.p_offset)
			seg.size = source.size - ph.p_offset;
		if (seg.size)
			seg.bytes = source.file + ph.p_offset;
	}
	image.segment_count++;
	return 0;
}

// The first NT_GNU_BUILD_ID among the notes.
static void find_build_id(sframe_image &image, Reader notes)
{
	while (notes.left() >= sizeof(Elf64_Nhdr)) {
		const uint32_t namesz = notes.u32(), descsz = notes.u32(), type = notes.u32();
		const unsigned char *name = notes.skip(namesz);
		notes.skip(-namesz & 3);
		const unsigned char *desc = notes.skip(descsz);

		if (notes.bad())
			return;
		if (type == NT_GNU_BUILD_ID && namesz == 4 && !memcmp(name, "GNU", 4) && descsz) {
			image.build_id_size = descsz < sizeof(image.build_id) ?
				descsz : sizeof(image.build_id);
			memcpy(image.build_id, desc, image.build_id_size);
			return;
		}
		notes.skip(-descsz & 3);
	}
}

// Bytes of a program header that is part of a segment.
static Reader phdr_reader(const sframe_image &image, const Elf64_Phdr &ph)
{
	Reader whole = image_reader(image, ph.p_vaddr);

	return {whole.at(), ph.p_filesz < whole.left() ? ph.p_filesz : whole.left()};
}

static void find_eh_frame(sframe_image &image)
{
	Reader hdr = image_reader(image, image.eh_frame_hdr);
	const PointerBase base = {&image, image.eh_frame_hdr, 0};

	if (hdr.u8() != 1)
		return;
	const uint8_t encoding = hdr.u8();
	uint64_t address;

	hdr.skip(2);
	if (read_pointer(hdr, encoding, image.eh_frame_hdr + 4, base, &address))
		image.eh_frame = address;
}

// table: program headers, in a file at any alignment.
static int read_phdrs(sframe_image &image, const Source &source, const void *table, size_t phnum)
{
	auto phdr = [&](size_t i) {
		Elf64_Phdr ph;

		memcpy(&ph, static_cast<const char *>(table) + i * sizeof(ph), sizeof(ph));
		return ph;
	};
	for (size_t i = 0; i < phnum; i++)
		if (phdr(i).p_type == PT_LOAD)
			if (int err = add_segment(image, source, phdr(i)))
				return err;
	if (!image.segment_count)
		return -ENOEXEC;
	for (size_t i = 0; i < phnum; i++) {
		const Elf64_Phdr ph = phdr(i);

		if (ph.p_type == PT_GNU_EH_FRAME) {
			image.eh_frame_hdr = ph.p_vaddr;
			image.eh_frame_hdr_size = ph.p_memsz;
		} else if (ph.p_type == PT_GNU_SFRAME) {
			image.sframe = ph.p_vaddr;
			image.sframe_size = ph.p_memsz;
		} else if (ph.p_type == PT_NOTE && !image.build_id_size) {
			find_build_id(image, phdr_reader(image, ph));
		}
	}
	if (image.eh_frame_hdr)
		find_eh_frame(image);
	return 0;
}

// .eh_frame by name, for files linked without --eh-frame-hdr.
static void find_eh_frame_section(sframe_image &image, const Elf64_Ehdr &eh,
				  const unsigned char *file, uint64_t size)
{
	if (eh.e_shentsize != sizeof(Elf64_Shdr) || eh.e_shoff > size ||
	    eh.e_shnum > (size - eh.e_shoff) / sizeof(Elf64_Shdr) || eh.e_shstrndx >= eh.e_shnum)
		return;
	auto section = [&](unsigned int i) {
		Elf64_Shdr sh;

		memcpy(&sh, file + eh.e_shoff + i * sizeof(sh), sizeof(sh));
		return sh;
	};
	const Elf64_Shdr names = section(eh.e_shstrndx);

	if (names.sh_offset > size || names.sh_size > size - names.sh_offset)
		return;
	for (unsigned int i = 1; i < eh.e_shnum; i++) {
		const Elf64_Shdr sh = section(i);
		static const char name[] = ".eh_frame";

		if (sh.sh_flags & SHF_ALLOC && sh.sh_name < names.sh_size &&
		    names.sh_size - sh.sh_name >= sizeof(name) &&
		    !memcmp(file + names.sh_offset + sh.sh_name, name, sizeof(name)) &&
		    image_segment(image, sh.sh_addr, sh.sh_size)) {
			image.eh_frame = sh.sh_addr;
			image.eh_frame_size = sh.sh_size;
			return;
		}
	}
}

static bool is_native(const Elf64_Ehdr &eh)
{
	return !memcmp(eh.e_ident, ELFMAG, SELFMAG) && eh.e_ident[EI_CLASS] == ELFCLASS64 &&
	       eh.e_ident[EI_DATA] == ELFDATA2LSB && eh.e_machine == EM_X86_64 &&
	       (eh.e_type == ET_EXEC || eh.e_type == ET_DYN) &&
	       eh.e_phentsize == sizeof(Elf64_Phdr);
}

} // namespace sframe

using namespace sframe;

EXPORT int sframe_image_from_memory(struct sframe_image *image, uint64_t load_bias,
				    const Elf64_Phdr *phdr, size_t phnum)
{
	memset(image, 0, sizeof(*image));
	image->load_bias = load_bias;
	image->relocated = 1;
	if (int err = read_phdrs(*image, Source{nullptr, 0, load_bias}, phdr, phnum))
		return err;
	return image->eh_frame || image->sframe ? 0 : -ENOENT;
}

EXPORT int sframe_image_from_file(struct sframe_image *image, const void *file, size_t size)
{
	const unsigned char *bytes = static_cast<const unsigned char *>(file);
	Elf64_Ehdr eh;

	memset(image, 0, sizeof(*image));
	if (size < sizeof(eh))
		return -ENOEXEC;
	memcpy(&eh, bytes, sizeof(eh));
	if (!is_native(eh))
		return -ENOEXEC;
	if (eh.e_phnum == PN_XNUM)
		return -E2BIG;
	if (eh.e_phoff > size ||
	    eh.e_phnum > (size - eh.e_phoff) / sizeof(Elf64_Phdr))
		return -ENOEXEC;
	image->machine = eh.e_machine;
	if (int err = read_phdrs(*image, Source{bytes, size, 0}, bytes + eh.e_phoff, eh.e_phnum))
		return err;
	if (!image->eh_frame)
		find_eh_frame_section(*image, eh, bytes, size);
	return image->eh_frame || image->sframe ? 0 : -ENOENT;
}
