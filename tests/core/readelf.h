// SPDX-License-Identifier: MIT
//
// What `readelf --sframe` prints, as data: the independent decoder that ours
// is compared with.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace core_test {

struct ReadelfRow {
	uint64_t start;		// address, or offset in a repeating block
	bool outermost;		// "RA undefined"
	bool mangled;
	std::string cfa, fp, ra;	// "sp+16", "c-8", "(fp-8)", "u", "f", ...
};

struct ReadelfFunction {
	uint64_t start, size;
	bool mask = false, flexible = false, signal = false, key_b = false;
	std::vector<ReadelfRow> rows = {};
};

// Version 2 knows a register only as such: "r16" is "r16+0".
inline std::string with_offset(const std::string &rule)
{
	return rule[0] == 'r' && rule.find_first_of("+-") == std::string::npos ? rule + "+0" : rule;
}

inline ReadelfRow parse_readelf_row(const std::string &line)
{
	// Columns may run into each other: "sp+1004104u".
	static const std::regex fields(
		R"(^\s*([0-9a-f]{16})\s+(\(?(?:sp|fp|r\d+)[+-]\d+\)?))"
		R"((?:\s*)(u|U|r\d+|\(?(?:c|sp|fp|r\d+)[+-]\d+\)?)(?:\s*)(f|u|U|r\d+|\(?(?:c|sp|fp|r\d+)[+-]\d+\)?)(\[s\])?\s*$)");
	std::smatch m;

	if (line.find("RA undefined") != std::string::npos)
		return { strtoull(line.c_str(), nullptr, 16), true, false, "", "", "" };
	if (!std::regex_match(line, m, fields))
		return { ~UINT64_C(0), false, false, line, "", "" };	// equal to nothing
	return { strtoull(m[1].str().c_str(), nullptr, 16), false, m[5].matched, m[2],
		 with_offset(m[3]), with_offset(m[4]) };
}

inline std::vector<ReadelfFunction> parse_readelf(const std::string &text)
{
	static const std::regex head(R"(func idx \[\d+\]: pc = (0x[0-9a-f]+), size = (\d+) bytes(.*))");
	static const std::regex row(R"(^\s*[0-9a-f]{16}\s.*)");
	std::vector<ReadelfFunction> functions;
	std::istringstream in(text);
	std::smatch m;

	for (std::string line; std::getline(in, line);) {
		if (std::regex_search(line, m, head)) {
			ReadelfFunction f{ strtoull(m[1].str().c_str(), nullptr, 16),
					   strtoull(m[2].str().c_str(), nullptr, 10) };
			const std::string attributes = m[3];
			const size_t attr = attributes.find("attr = \"");

			f.key_b = attributes.find("B key") != std::string::npos;
			if (attr != std::string::npos) {
				const std::string letters = attributes.substr(attr + 8);
				f.flexible = letters.find('F') != std::string::npos;
				f.signal = letters.find('S') != std::string::npos;
			}
			functions.push_back(f);
		} else if (line.find("STARTPC[m]") != std::string::npos && !functions.empty()) {
			functions.back().mask = true;
		} else if (std::regex_match(line, row) && !functions.empty()) {
			functions.back().rows.push_back(parse_readelf_row(line));
		}
	}
	return functions;
}

} // namespace core_test
