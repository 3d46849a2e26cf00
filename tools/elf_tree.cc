// SPDX-License-Identifier: MIT
#include "elf_tree.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

std::string cannot_read(const std::string &path)
{
	return path + ": cannot be read: " + strerror(errno) +
	       (errno == EACCES ? "; it needs read permission" : "; passed over");
}

enum Look { NOT_ELF, OTHER_ELF, LINKED_ELF, UNREADABLE };

// By magic and the first fields of the header; errno tells why with UNREADABLE.
Look look_at(const std::string &path)
{
	const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	Elf64_Ehdr header{};

	if (fd < 0)
		return UNREADABLE;
	const ssize_t got = read(fd, &header, sizeof(header));
	const int error = errno;
	close(fd);
	errno = error;
	if (got < 0)
		return UNREADABLE;
	if (got < EI_NIDENT || memcmp(header.e_ident, ELFMAG, SELFMAG))
		return NOT_ELF;
	const bool ours = header.e_ident[EI_CLASS] == ELFCLASS64 &&
			  header.e_ident[EI_DATA] == ELFDATA2LSB &&
			  header.e_machine == EM_X86_64 &&
			  (header.e_type == ET_EXEC || header.e_type == ET_DYN);
	return ours ? LINKED_ELF : OTHER_ELF;
}

} // namespace

void ElfTree::add(const std::string &path)
{
	struct stat st;

	if (!stat(path.c_str(), &st) && S_ISDIR(st.st_mode)) {
		if (!seen(st.st_dev, st.st_ino))
			walk(path);
	} else {
		files_.push_back({ path, true });
	}
}

void ElfTree::walk(const std::string &directory)
{
	DIR *dir = opendir(directory.c_str());
	std::vector<std::string> directories, names;

	if (!dir) {
		unreadable_.push_back(cannot_read(directory));
		return;
	}
	while (const dirent *entry = readdir(dir))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			names.push_back(entry->d_name);
	closedir(dir);
	// The order of a directory is nobody's; ours is the same each time.
	std::sort(names.begin(), names.end());
	for (const std::string &name : names) {
		const std::string path = directory + (directory.ends_with('/') ? "" : "/") + name;
		struct stat st, target;

		if (lstat(path.c_str(), &st))
			continue;	// gone meanwhile
		if (S_ISDIR(st.st_mode) && !seen(st.st_dev, st.st_ino))
			directories.push_back(path);
		else if (!stat(path.c_str(), &target) && S_ISREG(target.st_mode) &&
			 !seen(target.st_dev, target.st_ino))
			consider(path);
	}
	for (const std::string &path : directories)
		walk(path);
}

void ElfTree::consider(const std::string &path)
{
	switch (look_at(path)) {
	case LINKED_ELF:
		files_.push_back({ path, false });
		break;
	case OTHER_ELF:
		other_elf_++;
		break;
	case UNREADABLE:
		unreadable_.push_back(cannot_read(path));
		break;
	case NOT_ELF:
		break;
	}
}
