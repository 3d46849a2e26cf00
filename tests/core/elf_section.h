// SPDX-License-Identifier: MIT
//
// The bytes and the link-time address of a named section of an ELF file, by
// libelf alone.
#pragma once

#include <fcntl.h>
#include <gelf.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace core_test {

struct Section {
	bool found = false;
	uint64_t address = 0;
	std::string bytes;
};

inline Section elf_section(const std::string &path, const char *name)
{
	Section out;
	size_t names = 0;
	const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);

	elf_version(EV_CURRENT);
	Elf *elf = fd < 0 ? nullptr : elf_begin(fd, ELF_C_READ, nullptr);
	if (elf && !elf_getshdrstrndx(elf, &names)) {
		for (Elf_Scn *scn = nullptr; (scn = elf_nextscn(elf, scn));) {
			GElf_Shdr shdr;
			Elf_Data *data;

			if (!gelf_getshdr(scn, &shdr) ||
			    strcmp(elf_strptr(elf, names, shdr.sh_name), name))
				continue;
			out.found = true;
			out.address = shdr.sh_addr;
			if ((data = elf_rawdata(scn, nullptr)) && data->d_buf)
				out.bytes.assign(static_cast<const char *>(data->d_buf), data->d_size);
		}
	}
	if (elf)
		elf_end(elf);
	if (fd >= 0)
		close(fd);
	return out;
}

} // namespace core_test
