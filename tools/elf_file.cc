// SPDX-License-Identifier: MIT
//
// Mapping a file, refusing what we cannot use in one sentence, and looking at
// headers, sections and symbols through libelf.
#include "elf_file.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

class Descriptor {
public:
	explicit Descriptor(int fd) : fd_(fd) {}
	~Descriptor() { if (fd_ >= 0) close(fd_); }
	Descriptor(const Descriptor &) = delete;
	Descriptor &operator=(const Descriptor &) = delete;
	int get() const { return fd_; }

private:
	int fd_;
};

const char *advice(int error)
{
	switch (error) {
	case ENOENT:
		return "check the name";
	case EACCES:
	case EPERM:
		return "it needs read permission";
	default:
		return "try a copy of it elsewhere";
	}
}

std::string sentence(const std::string &path, const std::string &what, const char *advice)
{
	return path + ": " + what + "; " + advice;
}

// Where [vdso] lies in a process.
bool find_vdso(pid_t pid, uint64_t *start, uint64_t *end)
{
	const std::string maps = "/proc/" + (pid ? std::to_string(pid) : "self") + "/maps";
	FILE *in = fopen(maps.c_str(), "re");
	char line[PATH_MAX + 128];
	bool found = false;

	if (!in)
		return false;
	errno = ENOENT;
	while (!found && fgets(line, sizeof(line), in))
		found = strstr(line, "[vdso]") &&
			sscanf(line, "%" SCNx64 "-%" SCNx64, start, end) == 2;
	fclose(in);
	return found;
}

} // namespace

std::unique_ptr<ElfFile> ElfFile::open(const std::string &path, std::string *why, Kind kind)
{
	// O_NONBLOCK: a FIFO must not hang us; it is refused below.
	const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
	struct stat st;

	if (fd.get() < 0 || fstat(fd.get(), &st)) {
		*why = sentence(path, std::string("cannot be read: ") + strerror(errno),
				advice(errno));
		return nullptr;
	}
	if (!S_ISREG(st.st_mode)) {
		*why = sentence(path, S_ISDIR(st.st_mode) ? "is a directory" : "is no regular file",
				"name an ELF file");
		return nullptr;
	}
	std::unique_ptr<ElfFile> file(new ElfFile);
	file->path_ = path;
	if (st.st_size > 0) {
		const auto size = static_cast<size_t>(st.st_size);
		void *map = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);

		if (map == MAP_FAILED) {
			*why = sentence(path, std::string("cannot be mapped: ") + strerror(errno),
					advice(errno));
			return nullptr;
		}
		file->mapping_ = map;
		file->mapping_size_ = size;
		file->bytes_ = { static_cast<const unsigned char *>(map), size };
	}
	return file->parse(why, kind) ? std::move(file) : nullptr;
}

std::unique_ptr<ElfFile> ElfFile::from_bytes(std::vector<unsigned char> bytes,
					     const std::string &name, std::string *why, Kind kind)
{
	std::unique_ptr<ElfFile> file(new ElfFile);

	file->path_ = name;
	file->owned_ = std::move(bytes);
	file->bytes_ = file->owned_;
	return file->parse(why, kind) ? std::move(file) : nullptr;
}

std::unique_ptr<ElfFile> ElfFile::vdso(pid_t pid, std::string *why)
{
	const std::string proc = "/proc/" + (pid ? std::to_string(pid) : "self");
	const std::string name = pid ? "[vdso] of process " + std::to_string(pid) : "[vdso]";
	uint64_t start = 0, end = 0;

	if (!find_vdso(pid, &start, &end)) {
		*why = sentence(name, errno == ENOENT ? "there is none" : strerror(errno),
				"name a running process of yours");
		return nullptr;
	}
	const Descriptor mem(::open((proc + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
	std::vector<unsigned char> bytes(end - start);
	const ssize_t got = mem.get() < 0 ? -1 : pread(mem.get(), bytes.data(), bytes.size(),
						       static_cast<off_t>(start));
	if (got < 0 || static_cast<size_t>(got) != bytes.size()) {
		*why = sentence(name, std::string("cannot be read: ") + strerror(errno),
				"reading another process's memory needs the right to trace it");
		return nullptr;
	}
	return from_bytes(std::move(bytes), name, why);
}

ElfFile::~ElfFile()
{
	if (elf_)
		elf_end(elf_);
	if (mapping_)
		munmap(mapping_, mapping_size_);
}

// Why a file that libelf reads is of no use here, or "".
std::string ElfFile::refusal(Kind kind) const
{
	const unsigned char *ident = header_.e_ident;

	if (kind == ANY_ELF)
		return "";
	if (ident[EI_CLASS] != ELFCLASS64)
		return sentence(path_, "is a 32-bit ELF file", "only 64-bit x86-64 is supported");
	if (header_.e_machine != EM_X86_64)
		return sentence(path_, "is for another machine (e_machine " +
				       std::to_string(header_.e_machine) + ")",
				"only x86-64 is supported");
	if (ident[EI_DATA] != ELFDATA2LSB)
		return sentence(path_, "has the wrong byte order", "only x86-64 is supported");
	if (header_.e_type != ET_EXEC && header_.e_type != ET_DYN)
		return sentence(path_, "is neither an executable nor a shared object",
				"link it first");
	if (phdrs_.empty())
		return sentence(path_, "is truncated: it has no program headers",
				"get a whole copy");
	for (const GElf_Phdr &phdr : phdrs_)
		if (phdr.p_type == PT_LOAD && (phdr.p_offset > bytes_.size() ||
					       phdr.p_filesz > bytes_.size() - phdr.p_offset))
			return sentence(path_, "is truncated: a segment ends behind the file",
					"get a whole copy");
	return "";
}

bool ElfFile::parse(std::string *why, Kind kind)
{
	if (bytes_.size() < SELFMAG || memcmp(bytes_.data(), ELFMAG, SELFMAG)) {
		*why = sentence(path_, bytes_.empty() ? "is empty" : "is not an ELF file",
				"name an executable or a shared object");
		return false;
	}
	elf_version(EV_CURRENT);
	// libelf takes a non-const image and only reads it.
	elf_ = elf_memory(reinterpret_cast<char *>(const_cast<unsigned char *>(bytes_.data())),
			  bytes_.size());
	if (!elf_ || elf_kind(elf_) != ELF_K_ELF || !gelf_getehdr(elf_, &header_)) {
		*why = sentence(path_, "has a damaged or truncated ELF header", "get a whole copy");
		return false;
	}
	read_program_headers();
	const std::string refused = refusal(kind);
	if (!refused.empty()) {
		*why = refused;
		return false;
	}
	read_build_id();
	return true;
}

void ElfFile::read_program_headers()
{
	size_t count = 0;
	GElf_Phdr phdr;

	if (elf_getphdrnum(elf_, &count))
		return;
	for (size_t i = 0; i < count && gelf_getphdr(elf_, static_cast<int>(i), &phdr); i++)
		phdrs_.push_back(phdr);
}

void ElfFile::read_build_id()
{
	// By segment where there are segments, else (debug files) by section.
	auto scan = [this](Elf_Data *data) {
		GElf_Nhdr note;
		size_t name, desc, at = 0;

		while (data && (at = gelf_getnote(data, at, &note, &name, &desc)) > 0) {
			const auto *base = static_cast<const unsigned char *>(data->d_buf);

			if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
			    !memcmp(base + name, "GNU", 4)) {
				build_id_ = { base + desc, note.n_descsz };
				return true;
			}
		}
		return false;
	};
	for (const GElf_Phdr &phdr : phdrs_)
		if (phdr.p_type == PT_NOTE && phdr.p_offset <= INT64_MAX &&
		    scan(elf_getdata_rawchunk(elf_, static_cast<int64_t>(phdr.p_offset),
					      phdr.p_filesz,
					      phdr.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR)))
			return;
	for (Elf_Scn *scn = nullptr; (scn = elf_nextscn(elf_, scn));) {
		GElf_Shdr shdr;

		if (gelf_getshdr(scn, &shdr) && shdr.sh_type == SHT_NOTE &&
		    scan(elf_getdata(scn, nullptr)))
			return;
	}
}

std::string_view ElfFile::name() const
{
	return std::string_view(path_).substr(path_.rfind('/') + 1);
}

std::string ElfFile::build_id_hex() const
{
	std::string hex;
	char two[3];

	for (const unsigned char byte : build_id_) {
		snprintf(two, sizeof(two), "%02x", byte);
		hex += two;
	}
	return hex;
}

uint64_t ElfFile::executable_size() const
{
	uint64_t size = 0;

	for (const GElf_Phdr &phdr : phdrs_)
		if (phdr.p_type == PT_LOAD && (phdr.p_flags & PF_X))
			size += phdr.p_memsz;
	return size;
}

bool ElfFile::is_executable(uint64_t address) const
{
	return std::any_of(phdrs_.begin(), phdrs_.end(), [address](const GElf_Phdr &phdr) {
		return phdr.p_type == PT_LOAD && (phdr.p_flags & PF_X) &&
		       address - phdr.p_vaddr < phdr.p_memsz;
	});
}

Bytes ElfFile::at(uint64_t address, uint64_t size) const
{
	for (const GElf_Phdr &phdr : phdrs_) {
		const uint64_t offset = address - phdr.p_vaddr;

		if (phdr.p_type != PT_LOAD || offset >= phdr.p_filesz ||
		    phdr.p_offset > bytes_.size() || offset >= bytes_.size() - phdr.p_offset)
			continue;
		const uint64_t room = std::min<uint64_t>(phdr.p_filesz - offset,
							 bytes_.size() - phdr.p_offset - offset);
		return bytes_.subspan(phdr.p_offset + offset, std::min(size, room));
	}
	return {};
}

std::vector<ElfSection> ElfFile::sections() const
{
	std::vector<ElfSection> all;
	size_t names = 0;

	if (elf_getshdrstrndx(elf_, &names))
		return all;
	for (Elf_Scn *scn = nullptr; (scn = elf_nextscn(elf_, scn));) {
		GElf_Shdr shdr;
		const char *name;

		if (!gelf_getshdr(scn, &shdr) || !(name = elf_strptr(elf_, names, shdr.sh_name)))
			continue;
		ElfSection section{ name, shdr.sh_addr, shdr.sh_size, shdr.sh_flags, shdr.sh_type,
				    {} };
		if (shdr.sh_type != SHT_NOBITS && shdr.sh_offset <= bytes_.size() &&
		    shdr.sh_size <= bytes_.size() - shdr.sh_offset)
			section.bytes = bytes_.subspan(shdr.sh_offset, shdr.sh_size);
		all.push_back(std::move(section));
	}
	return all;
}

std::optional<ElfSection> ElfFile::section(std::string_view name) const
{
	for (ElfSection &section : sections())
		if (section.name == name)
			return std::move(section);
	return std::nullopt;
}

std::optional<uint64_t> ElfFile::address_of_offset(uint64_t offset) const
{
	for (const GElf_Phdr &phdr : phdrs_)
		if (phdr.p_type == PT_LOAD && offset - phdr.p_offset < phdr.p_filesz)
			return phdr.p_vaddr + (offset - phdr.p_offset);
	return std::nullopt;
}

std::unique_ptr<ElfFile> ElfFile::debug_file() const
{
	const std::string id = build_id_hex();
	std::string why;

	if (id.size() < 4)
		return nullptr;
	const std::string path = "/usr/lib/debug/.build-id/" + id.substr(0, 2) + "/" +
				 id.substr(2) + ".debug";
	if (access(path.c_str(), R_OK))
		return nullptr;
	std::unique_ptr<ElfFile> file = open(path, &why, ANY_ELF);
	return file && std::equal(build_id_.begin(), build_id_.end(), file->build_id().begin(),
				  file->build_id().end()) ? std::move(file) : nullptr;
}

std::string demangle(const char *name)
{
	int status = 0;
	char *text = name[0] == '_' && name[1] == 'Z' ?
		abi::__cxa_demangle(name, nullptr, nullptr, &status) : nullptr;

	if (!text)
		return name;
	std::string out(text);
	free(text);
	return out;
}

SymbolTable::SymbolTable(const ElfFile &file) : object_(file.name())
{
	read(file, SHT_SYMTAB);
	if (symbols_.empty() && (debug_ = file.debug_file()))
		read(*debug_, SHT_SYMTAB);
	read(file, SHT_DYNSYM);
	finish();
}

void SymbolTable::read(const ElfFile &file, uint32_t section_type)
{
	for (Elf_Scn *scn = nullptr; (scn = elf_nextscn(file.elf(), scn));) {
		GElf_Shdr shdr;
		Elf_Data *data;
		GElf_Sym sym;

		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != section_type ||
		    !(data = elf_getdata(scn, nullptr)))
			continue;
		for (int i = 0; gelf_getsym(data, i, &sym); i++) {
			const unsigned type = GELF_ST_TYPE(sym.st_info);
			const char *name;

			// Hand-written assembly often leaves its functions without a type.
			if ((type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) ||
			    sym.st_shndx == SHN_UNDEF || sym.st_shndx == SHN_ABS ||
			    !(name = elf_strptr(file.elf(), shdr.sh_link, sym.st_name)) || !*name)
				continue;
			symbols_.push_back({ sym.st_value, sym.st_size, name });
		}
	}
}

// Sorted by address; of several names for one address the best one stays: a
// sized symbol before an unsized one, the shortest name of those.
void SymbolTable::finish()
{
	std::stable_sort(symbols_.begin(), symbols_.end(), [](const Symbol &a, const Symbol &b) {
		if (a.start != b.start)
			return a.start < b.start;
		if (!a.size != !b.size)
			return a.size > b.size;
		const size_t la = strlen(a.name), lb = strlen(b.name);
		return la != lb ? la < lb : strcmp(a.name, b.name) < 0;
	});
	symbols_.erase(std::unique(symbols_.begin(), symbols_.end(),
				   [](const Symbol &a, const Symbol &b) {
					   return a.start == b.start;
				   }),
		       symbols_.end());
}

const SymbolTable::Symbol *SymbolTable::find(uint64_t address) const
{
	auto next = std::upper_bound(symbols_.begin(), symbols_.end(), address,
				     [](uint64_t a, const Symbol &s) { return a < s.start; });

	// A short local symbol may lie inside a longer function: look a little further back.
	for (int tries = 0; next != symbols_.begin() && tries < 8; tries++) {
		const Symbol &symbol = *--next;

		if (address - symbol.start < symbol.size || address == symbol.start)
			return &symbol;
	}
	return nullptr;
}

std::string SymbolTable::describe(uint64_t address, bool offset) const
{
	const Symbol *symbol = find(address);
	char number[32];

	snprintf(number, sizeof(number), "+0x%" PRIx64, symbol ? address - symbol->start : address);
	if (!symbol)
		return object_ + number;
	return offset && address != symbol->start ? demangle(symbol->name) + number :
						    demangle(symbol->name);
}
