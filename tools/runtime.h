// SPDX-License-Identifier: MIT
//
// What `run` and `record` need to know before they start a program: where this
// project's runtime libraries are, and whether the program will load them.
#pragma once

#include <string>

// Path of libsframe-audit.so, libsframe-preload.so, libsframe-sampler.so:
// $SFRAME_LIBDIR if it is set, else the build tree that this sframectl runs
// from, else where it was installed. Empty if there is none.
std::string runtime_library(const char *name);

// A program, as execvp() would find it, and what the dynamic linker will do
// with LD_AUDIT and LD_PRELOAD in it.
struct Program {
	std::string path;	// of the file; empty if there is none
	std::string linked;	// the ELF file that is run: path, or a script's interpreter
	int error = 0;		// errno of the search: ENOENT, EACCES, ...
	std::string obstacle;	// why our libraries will not be loaded; empty if they will
};

Program find_program(const char *name);

// Start @argv with @program's path; like execvp() it tries a shell for a text
// file without "#!". Returns only if that fails, with errno.
int exec_program(const Program &program, char *const argv[]);

// Put @entry in front of a list variable such as LD_AUDIT.
void prepend_variable(const char *name, const std::string &entry);

// Wait for a child as a shell's `exec` would look to whoever started us:
// terminal signals reach it by the process group, others are passed on.
// Returns the wait status.
int wait_for(int pid);

// End like the child did: exit with its status, or die of the same signal.
[[noreturn]] void end_like(int status);
