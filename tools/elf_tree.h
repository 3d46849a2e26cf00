// SPDX-License-Identifier: MIT
//
// The ELF objects of a directory tree.
//
// Example:
//
//	ElfTree tree;
//	tree.add("/usr/lib");
//	for (const ElfTree::File &file : tree.files())
//		work(file.path);
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>
#include <sys/types.h>

class ElfTree {
public:
	struct File {
		std::string path;
		bool named;	// by the user, not found in a tree
	};

	// A file is taken as named, whatever it is. A directory is walked: files
	// that are linked 64-bit x86-64 ELF objects are taken, others passed over.
	// Symbolic links inside it lead to files but not to directories; nothing is
	// taken twice.
	void add(const std::string &path);

	const std::vector<File> &files() const { return files_; }
	// A sentence for each place that could not be read.
	const std::vector<std::string> &unreadable() const { return unreadable_; }
	// ELF files of no use here: object files, other machines.
	uint64_t other_elf() const { return other_elf_; }

private:
	void walk(const std::string &directory);
	void consider(const std::string &path);
	bool seen(dev_t device, ino_t inode) { return !seen_.emplace(device, inode).second; }

	std::vector<File> files_;
	std::vector<std::string> unreadable_;
	std::set<std::pair<dev_t, ino_t>> seen_;
	uint64_t other_elf_ = 0;
};
