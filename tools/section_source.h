// SPDX-License-Identifier: MIT
//
// Where a tool gets an SFrame section from: an ELF file, a file that is the
// bare section, or the memory of a running process.
//
// Example: how many functions does a file's own section describe?
//
//	SectionSource source;
//	std::string why;
//	if (source.from_file("/bin/true", 0, &why))
//		printf("%zu bytes at %#lx\n", source.bytes().size(), source.address());
//	else
//		complain("%s", why.c_str());
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <sframe/decode.h>
#include <sys/types.h>
#include "elf_file.h"

class SectionSource {
public:
	// An ELF file of any machine: its section by PT_GNU_SFRAME, else by its
	// header. Or a bare section, which lies at @bare_address. On failure *why
	// is a sentence for complain().
	bool from_file(const std::string &path, uint64_t bare_address, std::string *why);
	// The section of a file that is open already.
	bool from_elf(std::shared_ptr<const ElfFile> elf, std::string *why);
	// The section at an address of a process; its header says how long it is.
	bool from_process(pid_t pid, uint64_t address, std::string *why);

	Bytes bytes() const { return bytes_; }
	uint64_t address() const { return address_; }
	// What function offsets count from, where the process registered that.
	std::optional<uint64_t> func_base() const { return func_base_; }
	// The file it is from; nullptr for bare sections and processes.
	const ElfFile *elf() const { return elf_.get(); }
	// Not linked yet: addresses count from the start of each text section.
	bool relocatable() const { return elf_ && elf_->type() == ET_REL; }

	// A decoder of it, or nullptr with a sentence in *why. Free it with
	// sframe_decoder_free(); it must not outlive this object.
	sframe_decoder *decoder(std::string *why) const;

private:
	bool find_in_elf(std::string *why);
	bool from_bare_file(const std::string &path, uint64_t address, std::string *why);
	bool apply_relocations();

	std::string name_;
	std::shared_ptr<const ElfFile> elf_;
	std::vector<unsigned char> owned_;
	Bytes bytes_;
	uint64_t address_ = 0;
	std::optional<uint64_t> func_base_;
};
