// SPDX-License-Identifier: MIT
//
// What a process has registered, as others see it, and what it has mapped.
#pragma once

#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <sframe/register.h>
#include <sframe/registry.h>
#include <sstream>
#include <string>
#include <vector>

struct Registration {
	uint64_t start, end, id;
	uint32_t source;
	std::string path;

	std::string name() const { return path.substr(path.rfind('/') + 1); }
};

inline std::vector<Registration> registrations(int pid)
{
	std::vector<Registration> found;
	sframe_peer *peer;
	const int err = sframe_peer_open(&peer, pid);

	EXPECT_EQ(err, 0) << strerror(-err);
	if (err)
		return found;
	sframe_peer_each(
		peer,
		[](const sframe_range *range, const char *path, void *arg) {
			static_cast<std::vector<Registration> *>(arg)->push_back(
				{ range->text_start, range->text_end, range->id, range->source,
				  path ? path : "" });
			return 0;
		},
		&found);
	sframe_peer_close(peer);
	return found;
}

inline size_t count_named(const std::vector<Registration> &list, const std::string &name)
{
	size_t n = 0;

	for (const Registration &r : list)
		n += r.name() == name;
	return n;
}

struct ExecutableMapping {
	uint64_t start, end;
	std::string path;
};

inline std::vector<ExecutableMapping> executable_mappings(int pid)
{
	std::ifstream maps(std::string("/proc/") + std::to_string(pid) + "/maps");
	std::vector<ExecutableMapping> found;

	for (std::string line; std::getline(maps, line);) {
		ExecutableMapping mapping;
		std::string mode, rest;
		char dash;
		std::istringstream in(line);

		in >> std::hex >> mapping.start >> dash >> mapping.end >> mode;
		if (mode.size() < 3 || mode[2] != 'x')
			continue;
		in >> rest >> rest >> rest >> mapping.path;
		found.push_back(mapping);
	}
	return found;
}

// Executable mappings that no registration touches, but for the kernel's
// vsyscall page: it is emulated, nothing runs there.
inline std::vector<std::string> unregistered(int pid)
{
	const auto list = registrations(pid);
	std::vector<std::string> missing;

	for (const ExecutableMapping &mapping : executable_mappings(pid)) {
		bool known = mapping.path == "[vsyscall]";

		for (const Registration &r : list)
			known = known || (r.start < mapping.end && r.end > mapping.start);
		if (!known)
			missing.push_back(mapping.path);
	}
	return missing;
}
