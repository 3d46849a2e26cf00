// SPDX-License-Identifier: MIT
//
// The process's initial stack, where the kernel left the environment and the
// auxiliary vector, and taking this library out of the environment that the
// program's children will inherit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sframe {

struct InitialStack {
	char **envp;
	const uint64_t *auxv;	// pairs
};

// @stack: the stack pointer that the program started with (it points to argc).
InitialStack initial_stack(void *stack);

// Value of an AT_ entry, or 0.
uint64_t auxiliary(const uint64_t *auxv, uint64_t type);

// Take every mention of a file called @basename out of the list variable @name
// (entries divided by colons, and by spaces if @spaces), in place; the rest
// keeps its order. A variable left with nothing is removed.
void remove_from_list(char **envp, const char *name, const char *basename, bool spaces);

// Remove a variable.
void remove_variable(char **envp, const char *name);

} // namespace sframe
