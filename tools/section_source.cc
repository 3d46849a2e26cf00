// SPDX-License-Identifier: MIT
//
// Finding SFrame sections in files and processes, and saying in one sentence
// why one cannot be read.
#include "section_source.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sframe/abi.h>
#include <sframe/registry.h>
#include <sys/uio.h>
#include "sframe_format.h"

#ifndef PT_GNU_SFRAME
#define PT_GNU_SFRAME 0x6474e554
#endif
#ifndef SHT_GNU_SFRAME
#define SHT_GNU_SFRAME 0x6ffffff4
#endif

namespace {

// The longest section that is read from a process: libLLVM's has some 10 MB.
constexpr uint64_t SIZE_LIMIT = UINT64_C(1) << 30;

std::string hex(uint64_t value)
{
	char text[20];

	snprintf(text, sizeof(text), "%#lx", value);
	return text;
}

bool has_magic(Bytes bytes)
{
	return bytes.size() >= 2 && ((bytes[0] == 0xe2 && bytes[1] == 0xde) ||
				     (bytes[0] == 0xde && bytes[1] == 0xe2));
}

// A number of the section, which may be of the other byte order.
uint32_t get32(const unsigned char *header, size_t at)
{
	const bool little = header[0] == 0xe2;
	uint32_t value = 0;

	for (size_t i = 0; i < 4; i++)
		value |= static_cast<uint32_t>(header[at + i]) << 8 * (little ? i : 3 - i);
	return value;
}

bool read_process(pid_t pid, uint64_t address, unsigned char *to, size_t size)
{
	while (size) {
		iovec local{ to, size };
		iovec remote{ reinterpret_cast<void *>(address), size };
		const ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);

		if (n <= 0)
			return false;
		to += n;
		address += static_cast<uint64_t>(n);
		size -= static_cast<size_t>(n);
	}
	return true;
}

std::string process_refusal(pid_t pid, uint64_t address, int error)
{
	const std::string who = "process " + std::to_string(pid);

	switch (error) {
	case ESRCH:
		return who + ": there is none; check the number";
	case EPERM:
		return who + ": its memory may not be read; that needs the right to trace it";
	default:
		return who + ": nothing is readable at " + hex(address) +
		       "; `sframectl list` shows where its sections are";
	}
}

// What a process registered about the section at an address.
struct Registered {
	uint64_t section;
	std::optional<uint64_t> func_base;
};

int note_func_base(const sframe_range *range, const char *, void *arg)
{
	auto *found = static_cast<Registered *>(arg);

	if (range->sframe_start != found->section)
		return 0;
	if (range->flags & SFRAME_FUNC_BASE)
		found->func_base = range->func_base;
	return 1;
}

std::optional<uint64_t> registered_func_base(pid_t pid, uint64_t section)
{
	Registered found{ section, std::nullopt };
	sframe_peer *peer;

	if (sframe_peer_open(&peer, pid))
		return std::nullopt;
	sframe_peer_each(peer, note_func_base, &found);
	sframe_peer_close(peer);
	return found.func_base;
}

// A refusal of the core, as a sentence's end: what it is; what to do.
std::string refusal(int why, Bytes bytes)
{
	const std::string name = sframe_decode_status_name(why);

	if (bytes.size() < SFRAME_HEADER_SIZE)
		return "has an SFrame section of " + std::to_string(bytes.size()) +
		       " bytes, shorter than a header, which is as good as none";
	if (bytes[2] == SFRAME_VERSION_1 && has_magic(bytes))
		return "has an SFrame section of version 1, which is obsolete; "
		       "versions 2 and 3 are read";
	if (has_magic(bytes) && bytes[2] > SFRAME_VERSION_3)
		return "has an SFrame section of version " + std::to_string(bytes[2]) +
		       "; versions 2 and 3 are read";
	return "has an SFrame section that is refused: " + name;
}

} // namespace

bool SectionSource::from_file(const std::string &path, uint64_t bare_address, std::string *why)
{
	name_ = path;
	elf_ = ElfFile::open(path, why, ElfFile::ANY_ELF);
	if (elf_)
		return find_in_elf(why);
	return from_bare_file(path, bare_address, why);
}

bool SectionSource::from_elf(std::shared_ptr<const ElfFile> elf, std::string *why)
{
	name_ = elf->path();
	elf_ = std::move(elf);
	return find_in_elf(why);
}

// *why already says what is wrong with the file as an ELF file, which stays so
// unless it does not try to be one.
bool SectionSource::from_bare_file(const std::string &path, uint64_t address, std::string *why)
{
	std::error_code ignored;
	unsigned char magic[2];

	if (!std::filesystem::is_regular_file(path, ignored))
		return false;
	std::ifstream in(path, std::ios::binary);
	if (!in.read(reinterpret_cast<char *>(magic), sizeof(magic)) || !has_magic(magic)) {
		if (in && magic[0] != ELFMAG0)
			*why = path + ": is neither an ELF file nor an SFrame section; name one";
		return false;
	}
	owned_.assign(magic, magic + sizeof(magic));
	owned_.insert(owned_.end(), std::istreambuf_iterator<char>(in), {});
	bytes_ = owned_;
	address_ = address;
	return true;
}

bool SectionSource::find_in_elf(std::string *why)
{
	for (const GElf_Phdr &phdr : elf_->program_headers())
		if (phdr.p_type == PT_GNU_SFRAME) {
			address_ = phdr.p_vaddr;
			bytes_ = elf_->at(phdr.p_vaddr, phdr.p_filesz);
			if (bytes_.size() == phdr.p_filesz)
				return true;
			*why = name_ + ": is truncated: its SFrame segment ends behind the file; "
				       "get a whole copy";
			return false;
		}
	for (const ElfSection &section : elf_->sections()) {
		if (section.type != SHT_GNU_SFRAME && section.name != ".sframe")
			continue;
		address_ = section.address;
		bytes_ = section.bytes;
		if (bytes_.size() != section.size) {
			*why = name_ + ": is truncated: its .sframe ends behind the file; "
				       "get a whole copy";
			return false;
		}
		return !relocatable() || apply_relocations() ||
		       (*why = name_ + ": has damaged relocations; get a whole copy", false);
	}
	*why = name_ + ": has no .sframe; `sframectl synth` makes one from its .eh_frame";
	return false;
}

namespace {

// Stores a function's start in a section of either byte order.
void store(unsigned char *to, size_t width, bool little, uint64_t value)
{
	for (size_t i = 0; i < width; i++)
		to[i] = static_cast<unsigned char>(value >> 8 * (little ? i : width - 1 - i));
}

// The value of the symbol that a relocation names.
std::optional<uint64_t> symbol_value(Elf *elf, size_t table, const GElf_Rela &rela)
{
	Elf_Scn *scn = elf_getscn(elf, table);
	Elf_Data *symbols = scn ? elf_getdata(scn, nullptr) : nullptr;
	GElf_Sym symbol;

	if (!symbols ||
	    !gelf_getsym(symbols, static_cast<int>(GELF_R_SYM(rela.r_info)), &symbol))
		return std::nullopt;
	return symbol.st_value;
}

} // namespace

// In an object file function starts are PC-relative relocations: S + A - P,
// whatever the machine calls them. The section counts as lying at 0.
bool SectionSource::apply_relocations()
{
	const auto offset = static_cast<uint64_t>(bytes_.data() - elf_->bytes().data());
	Elf *elf = elf_->elf();
	GElf_Shdr shdr, target;
	GElf_Rela rela;

	owned_.assign(bytes_.begin(), bytes_.end());
	bytes_ = owned_;
	if (owned_.size() < SFRAME_HEADER_SIZE)
		return true;
	const size_t width = owned_[2] == SFRAME_VERSION_3 ? 8 : 4;
	for (Elf_Scn *scn = nullptr; (scn = elf_nextscn(elf, scn));) {
		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_RELA ||
		    !gelf_getshdr(elf_getscn(elf, shdr.sh_info), &target) ||
		    target.sh_offset != offset || target.sh_size != owned_.size())
			continue;
		Elf_Data *relas = elf_getdata(scn, nullptr);
		for (int i = 0; relas && gelf_getrela(relas, i, &rela); i++) {
			const auto symbol = symbol_value(elf, shdr.sh_link, rela);

			if (!symbol || rela.r_offset > owned_.size() ||
			    owned_.size() - rela.r_offset < width)
				return false;
			store(owned_.data() + rela.r_offset, width, owned_[0] == 0xe2,
			      *symbol + static_cast<uint64_t>(rela.r_addend) - rela.r_offset);
		}
	}
	return true;
}

bool SectionSource::from_process(pid_t pid, uint64_t address, std::string *why)
{
	unsigned char header[SFRAME_HEADER_SIZE];
	const std::string where = "process " + std::to_string(pid) + ": at " + hex(address);

	name_ = where;
	if (!read_process(pid, address, header, sizeof(header))) {
		*why = process_refusal(pid, address, errno);
		return false;
	}
	if (!has_magic(header)) {
		*why = where + " lies no SFrame section; `sframectl list` shows where they are";
		return false;
	}
	const uint64_t size = UINT64_C(0) + SFRAME_HEADER_SIZE + header[7] + get32(header, 24) +
			      get32(header, 16);
	if (size > SIZE_LIMIT) {
		*why = where + " lies a section that claims " + std::to_string(size) +
		       " bytes; it is damaged";
		return false;
	}
	owned_.resize(size);
	if (!read_process(pid, address, owned_.data(), owned_.size())) {
		*why = where + " lies a section that claims " + std::to_string(size) +
		       " bytes, not all of which are readable; it is damaged";
		return false;
	}
	bytes_ = owned_;
	address_ = address;
	func_base_ = registered_func_base(pid, address);
	return true;
}

sframe_decoder *SectionSource::decoder(std::string *why) const
{
	const unsigned int flags = (func_base_ ? SFRAME_DECODE_FUNC_BASE : 0) |
				   (relocatable() ? SFRAME_DECODE_UNSORTED : 0);
	sframe_decoder *dec;
	int status;
	const int err = sframe_decoder_new(&dec, bytes_.data(), bytes_.size(),
					   func_base_.value_or(address_), flags, &status);

	if (!err)
		return dec;
	*why = name_ + ": " + (err == -EBADMSG ? refusal(status, bytes_) :
						 std::string(strerror(-err)) + "; try again");
	return nullptr;
}
