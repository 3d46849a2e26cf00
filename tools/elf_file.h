// SPDX-License-Identifier: MIT
//
// ELF files as the tools see them: one wrapper over libelf and libdw.
//
// Example: who is at this link-time address?
//
//	std::string why;
//	if (auto file = ElfFile::open("/usr/lib/x86_64-linux-gnu/libc.so.6", &why)) {
//		SymbolTable symbols(*file);
//		puts(symbols.describe(0x29d90).c_str());	// "__libc_start_call_main"
//	} else {
//		complain("%s", why.c_str());
//	}
//
// Files are mapped, never trusted: what is asked for by address or by section
// is clipped to the bytes that are there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>
#include <elfutils/libdw.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/types.h>

using Bytes = std::span<const unsigned char>;

// A section of a file, with what its header says.
struct ElfSection {
	std::string name;
	uint64_t address;	// link-time
	uint64_t size;
	uint64_t flags;		// SHF_*
	uint32_t type;		// SHT_*
	Bytes bytes;		// empty for SHT_NOBITS or if the file is too short
};

class ElfFile {
public:
	// What open() accepts.
	enum Kind {
		ANY_ELF,	// whatever libelf reads
		OBJECT,		// a 64-bit little-endian x86-64 executable or shared object
	};

	// A file by path. nullptr: *why is a sentence for a person, with the path
	// and what to do about it, ready for complain().
	static std::unique_ptr<ElfFile> open(const std::string &path, std::string *why,
					     Kind kind = OBJECT);
	// Bytes that are no file: the vDSO, a module in memory.
	static std::unique_ptr<ElfFile> from_bytes(std::vector<unsigned char> bytes,
						   const std::string &name, std::string *why,
						   Kind kind = OBJECT);
	// The vDSO of a process (0: of this one).
	static std::unique_ptr<ElfFile> vdso(pid_t pid, std::string *why);
	~ElfFile();

	const std::string &path() const { return path_; }
	// The last component of the path.
	std::string_view name() const;
	Elf *elf() const { return elf_; }
	uint16_t machine() const { return header_.e_machine; }
	uint16_t type() const { return header_.e_type; }
	// The whole file.
	Bytes bytes() const { return bytes_; }
	// NT_GNU_BUILD_ID, empty if there is none.
	Bytes build_id() const { return build_id_; }
	std::string build_id_hex() const;
	const std::vector<GElf_Phdr> &program_headers() const { return phdrs_; }
	// Bytes of executable segments (memory size).
	uint64_t executable_size() const;
	bool is_executable(uint64_t address) const;
	// File bytes at a link-time address, at most size, as far as the segment has them.
	Bytes at(uint64_t address, uint64_t size) const;
	std::optional<ElfSection> section(std::string_view name) const;
	std::vector<ElfSection> sections() const;
	// Link-time address of a file offset, as in a row of /proc/PID/maps.
	std::optional<uint64_t> address_of_offset(uint64_t offset) const;
	// The separate debug file of the same build-id (under /usr/lib/debug), or nullptr.
	std::unique_ptr<ElfFile> debug_file() const;

private:
	ElfFile() = default;
	ElfFile(const ElfFile &) = delete;
	ElfFile &operator=(const ElfFile &) = delete;
	bool parse(std::string *why, Kind kind);
	std::string refusal(Kind kind) const;
	void read_program_headers();
	void read_build_id();

	std::string path_;
	std::vector<unsigned char> owned_;
	void *mapping_ = nullptr;
	size_t mapping_size_ = 0;
	Bytes bytes_;
	Elf *elf_ = nullptr;
	GElf_Ehdr header_{};
	std::vector<GElf_Phdr> phdrs_;
	Bytes build_id_;
};

// Function symbols of a file: .symtab of the file or of its debug file, and
// .dynsym. Where no symbol covers an address the object itself names it.
class SymbolTable {
public:
	struct Symbol {
		uint64_t start, size;
		const char *name;	// as in the file (mangled)
	};

	explicit SymbolTable(const ElfFile &file);
	// The symbol that covers the address, or nullptr.
	const Symbol *find(uint64_t address) const;
	// Demangled name, or "object+0xoffset". With offset: "name+0x12".
	std::string describe(uint64_t address, bool offset = false) const;
	size_t size() const { return symbols_.size(); }

private:
	void read(const ElfFile &file, uint32_t section_type);
	void finish();

	std::string object_;
	std::unique_ptr<ElfFile> debug_;
	std::vector<Symbol> symbols_;
};

// A C++ name for people; other names unchanged.
std::string demangle(const char *name);
