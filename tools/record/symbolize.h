// SPDX-License-Identifier: MIT
//
// From PCs to functions: by the symbols of the recorded file (if it still is
// that file), else by where .eh_frame says that functions begin.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>
#include "elf_file.h"
#include "profile.h"

namespace sframe::record {

// How the frames of a function were unwound.
enum class Origin { NATIVE, SYNTHESIZED, JIT, UNCOVERED };

const char *origin_name(Origin origin);

struct Function {
	std::string name;
	std::string object;	// the file's last component, "" if unknown
	Origin origin;
	bool hidden;		// the sampler's own: not part of the program
	bool operator<(const Function &o) const
	{
		return std::tie(name, object, origin) < std::tie(o.name, o.object, o.origin);
	}
};

class Symbolizer {
public:
	explicit Symbolizer(const Profile &profile);
	~Symbolizer();

	// The function of a frame, as an index into functions(). @exact: the PC is
	// where execution was, not a return address.
	uint32_t function_of(const Frame &frame, bool exact);
	const std::vector<Function> &functions() const { return functions_; }

	// "name+0x12", for a listing of single frames.
	std::string describe(const Frame &frame, bool exact);
	// Path of the frame's object, or "[unknown]".
	std::string path_of(const Frame &frame) const;

	// Why names may be missing: a sentence for each file that cannot be used.
	const std::vector<std::string> &complaints() const { return complaints_; }

private:
	struct File;

	File *file_of(uint32_t object);
	std::string name_at(const Object &object, File *file, uint64_t address);
	uint32_t intern(Function &&function);

	const Profile &profile_;
	std::vector<Function> functions_;
	std::map<Function, uint32_t> numbers_;
	std::map<std::pair<uint32_t, uint64_t>, uint32_t> known_;	// object and PC
	std::map<std::pair<std::string, std::string>, std::unique_ptr<File>> files_;	// path, build-id
	std::vector<std::string> complaints_;
};

} // namespace sframe::record
