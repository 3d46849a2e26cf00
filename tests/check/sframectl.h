// SPDX-License-Identifier: MIT
//
// Running sframectl and reading its JSON.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include "../audit/process.h"

inline Outcome sframectl(Strings arguments, const Environment &environment = {},
			 void (*prepare)() = nullptr)
{
	const char *program = getenv("SFRAMECTL");

	arguments.insert(arguments.begin(), program ? program : "sframectl");
	return run(arguments, environment, prepare);
}

// The number behind the last "key": totals come last. -1 if there is none.
inline double number(const std::string &json, const std::string &key)
{
	const std::string name = "\"" + key + "\":";
	const size_t at = json.rfind(name);

	return at == std::string::npos ? -1 : strtod(json.c_str() + at + name.size(), nullptr);
}

inline bool contains(const std::string &text, const std::string &part)
{
	return text.find(part) != std::string::npos;
}

inline size_t lines(const std::string &text)
{
	size_t n = 0;

	for (const char c : text)
		n += c == '\n';
	return n;
}

inline std::string read_whole(const std::string &path)
{
	std::ifstream in(path, std::ios::binary);

	return { std::istreambuf_iterator<char>(in), {} };
}

inline void write_whole(const std::string &path, const std::string &bytes)
{
	std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}
