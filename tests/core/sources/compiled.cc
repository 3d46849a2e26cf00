// SPDX-License-Identifier: MIT
//
// Ordinary code for a compiler to make ordinary CFI from: templates, recursion,
// exceptions, alloca, vectors that realign the stack.
#include <alloca.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

using Wide = float __attribute__((vector_size(32)));

void use(Wide *);
int use(char *);

float realigned(const float *from)
{
	Wide v;

	memcpy(&v, from, sizeof(v));
	use(&v);
	return v[0] + v[7];
}

int variable(size_t n)
{
	char *buffer = static_cast<char *>(alloca(n));

	return use(buffer);
}

int realigned_variable(size_t n, const float *from)
{
	Wide v;
	char *buffer = static_cast<char *>(alloca(n));

	memcpy(&v, from, sizeof(v));
	use(&v);
	return use(buffer) + static_cast<int>(v[3]);
}

unsigned long words(const std::string &text)
{
	const std::regex word("[a-z]+(-[a-z]+)*");
	std::map<std::string, std::vector<size_t>> seen;

	for (std::sregex_iterator i(text.begin(), text.end(), word), end; i != end; ++i)
		seen[i->str()].push_back(static_cast<size_t>(i->position()));
	if (seen.empty())
		throw std::runtime_error("no words");
	return std::max_element(seen.begin(), seen.end(), [](const auto &a, const auto &b) {
		       return a.second.size() < b.second.size();
	       })->second.size();
}

int main(int argc, char **argv)
{
	try {
		return static_cast<int>(words(argc > 1 ? argv[1] : ""));
	} catch (const std::exception &) {
		return 1;
	}
}
