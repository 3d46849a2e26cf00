// SPDX-License-Identifier: MIT
#include "link_map.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include "process.h"
#include "sys.h"

namespace sframe {

namespace {

constexpr uint64_t kPage = 4096;
constexpr size_t kMaxPhdrs = 512;

bool names_dynamic(const struct link_map &map, const Elf64_Phdr *phdr, size_t phnum)
{
	for (size_t i = 0; i < phnum; i++)
		if (phdr[i].p_type == PT_DYNAMIC)
			return map.l_addr + phdr[i].p_vaddr ==
			       reinterpret_cast<uint64_t>(map.l_ld);
	return false;
}

bool is_ours(const Elf64_Ehdr &eh)
{
	return !memcmp(eh.e_ident, ELFMAG, SELFMAG) && eh.e_ident[EI_CLASS] == ELFCLASS64 &&
	       eh.e_phentsize == sizeof(Elf64_Phdr) && eh.e_phnum && eh.e_phnum <= kMaxPhdrs &&
	       eh.e_phoff % alignof(Elf64_Phdr) == 0;
}

// The ELF header at @address, if it is there and is this object's.
bool headers_at(const struct link_map &map, uint64_t address, Headers *headers)
{
	Elf64_Ehdr eh;

	if (address % kPage || !readable(address, sizeof(eh)))
		return false;
	memcpy(&eh, reinterpret_cast<const void *>(address), sizeof(eh));
	if (!is_ours(eh) ||
	    !readable(address + eh.e_phoff, uint64_t{eh.e_phnum} * sizeof(Elf64_Phdr)))
		return false;
	const auto *phdr = reinterpret_cast<const Elf64_Phdr *>(address + eh.e_phoff);
	if (!names_dynamic(map, phdr, eh.e_phnum))
		return false;
	headers->phdr = phdr;
	headers->phnum = eh.e_phnum;
	return true;
}

// Headers that no segment maps, read from the file the object came from.
bool headers_in_file(const struct link_map &map, const Mapping &mapping, Headers *headers)
{
	struct stat st;
	Elf64_Ehdr eh;
	bool found = false;

	const long fd = sys::call(__NR_openat, AT_FDCWD, sys::arg(map.l_name),
				  O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (sys::failed(fd))
		return false;
	if (!sys::failed(sys::call(__NR_fstat, fd, sys::arg(&st))) &&
	    st.st_ino == mapping.inode && major(st.st_dev) == mapping.major &&
	    minor(st.st_dev) == mapping.minor &&
	    sys::call(__NR_pread64, fd, sys::arg(&eh), sizeof(eh), 0) == sizeof(eh) &&
	    is_ours(eh)) {
		const long size = static_cast<long>(eh.e_phnum * sizeof(Elf64_Phdr));
		const long at = sys::call(__NR_mmap, 0, size, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (!sys::failed(at)) {
			headers->phdr = reinterpret_cast<const Elf64_Phdr *>(at);
			headers->phnum = eh.e_phnum;
			headers->buffer = reinterpret_cast<void *>(at);
			headers->buffer_size = static_cast<size_t>(size);
			found = sys::call(__NR_pread64, fd, at, size,
					  static_cast<long>(eh.e_phoff)) == size &&
				names_dynamic(map, headers->phdr, headers->phnum);
			if (!found)
				release_headers(*headers);
		}
	}
	sys::call(__NR_close, fd);
	return found;
}

// The mapping that holds the dynamic section tells the file; the first page of
// that file, mapped below, is the header.
bool headers_by_maps(const struct link_map &map, Headers *headers)
{
	const auto dynamic = reinterpret_cast<uint64_t>(map.l_ld);
	ProcessMaps reader(0);
	Mapping mapping, first = {}, holder = {};

	while (reader.next(&mapping)) {
		if (mapping.start > dynamic)
			break;
		if (mapping.inode && mapping.offset == 0)
			first = mapping;
		if (dynamic < mapping.end)
			holder = mapping;
	}
	if (!holder.inode)
		return false;
	if (first.inode == holder.inode && first.major == holder.major &&
	    first.minor == holder.minor && headers_at(map, first.start, headers))
		return true;
	return map.l_name && *map.l_name && headers_in_file(map, holder, headers);
}

} // namespace

bool readable(uint64_t address, uint64_t size)
{
	if (!size || address + size < address)
		return false;
	for (uint64_t at = address & ~(kPage - 1); at < address + size; at += kPage)
		// The kernel copies the set before it finds that "how" makes no
		// sense: EFAULT or EINVAL, and nothing changes.
		if (sys::call(__NR_rt_sigprocmask, -1, static_cast<long>(at), 0, 8) != -EINVAL)
			return false;
	return true;
}

bool find_headers(const struct link_map &map, const Elf64_Phdr *hint, size_t hint_count,
		  Headers *headers)
{
	if (hint && hint_count && names_dynamic(map, hint, hint_count)) {
		headers->phdr = hint;
		headers->phnum = hint_count;
		return true;
	}
	return headers_at(map, map.l_addr, headers) || headers_by_maps(map, headers);
}

void release_headers(Headers &headers)
{
	if (headers.buffer)
		sys::call(__NR_munmap, sys::arg(headers.buffer), sys::arg(headers.buffer_size));
	headers = {};
}

} // namespace sframe
