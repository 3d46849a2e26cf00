// SPDX-License-Identifier: MIT
#include "environment.h"

#include <cstring>
#include <elf.h>

namespace sframe {

namespace {

// The value, if @entry is "NAME=value".
char *value_of(char *entry, const char *name)
{
	const size_t length = strlen(name);

	for (size_t i = 0; i < length; i++)
		if (entry[i] != name[i])
			return nullptr;
	return entry[length] == '=' ? entry + length + 1 : nullptr;
}

bool divides(char c, bool spaces) { return c == ':' || (spaces && c == ' '); }

bool file_is(const char *entry, size_t length, const char *basename)
{
	const size_t want = strlen(basename);

	return length >= want && !memcmp(entry + length - want, basename, want) &&
	       (length == want || entry[length - want - 1] == '/');
}

// Closes the gaps in place. Returns the new length.
size_t edit_list(char *list, const char *basename, bool spaces)
{
	size_t from = 0, to = 0;

	while (list[from]) {
		size_t length = 0;

		while (list[from + length] && !divides(list[from + length], spaces))
			length++;
		if (!file_is(list + from, length, basename)) {
			if (to)
				list[to++] = ':';
			memmove(list + to, list + from, length);
			to += length;
		}
		from += length;
		if (list[from])
			from++;
	}
	list[to] = 0;
	return to;
}

bool mentions(const char *list, const char *basename, bool spaces)
{
	for (const char *at = list; *at;) {
		size_t length = 0;

		while (at[length] && !divides(at[length], spaces))
			length++;
		if (file_is(at, length, basename))
			return true;
		at += length + (at[length] != 0);
	}
	return false;
}

void remove_entry(char **at)
{
	do
		at[0] = at[1];
	while (*at++);
}

} // namespace

InitialStack initial_stack(void *stack)
{
	auto *words = static_cast<uint64_t *>(stack);
	auto **envp = reinterpret_cast<char **>(words + 1 + words[0] + 1);
	char **end = envp;

	while (*end)
		end++;
	return { envp, reinterpret_cast<const uint64_t *>(end + 1) };
}

uint64_t auxiliary(const uint64_t *auxv, uint64_t type)
{
	for (; auxv[0] != AT_NULL; auxv += 2)
		if (auxv[0] == type)
			return auxv[1];
	return 0;
}

void remove_from_list(char **envp, const char *name, const char *basename, bool spaces)
{
	while (*envp) {
		char *list = value_of(*envp, name);

		if (list && mentions(list, basename, spaces) &&
		    edit_list(list, basename, spaces) == 0)
			remove_entry(envp);
		else
			envp++;
	}
}

void remove_variable(char **envp, const char *name)
{
	while (*envp)
		if (value_of(*envp, name))
			remove_entry(envp);
		else
			envp++;
}

} // namespace sframe
