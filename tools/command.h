// SPDX-License-Identifier: MIT
//
// sframectl's subcommands: one source file each, listed in sframectl.cc.
#pragma once

struct Command {
	const char *name;
	const char *usage;	// what follows the name, one line
	const char *summary;	// one line
	int (*run)(int argc, char **argv);	// argv[0] is the subcommand's name
};

int dump_main(int argc, char **argv);
int list_main(int argc, char **argv);
int record_main(int argc, char **argv);
int report_main(int argc, char **argv);
int run_main(int argc, char **argv);
int check_main(int argc, char **argv);
int synth_main(int argc, char **argv);

extern const Command commands[];

// Exit codes of sframectl itself; run and record exit with the program's status.
enum { EXIT_OK = 0, EXIT_FOUND = 1, EXIT_USAGE = 2, EXIT_CANNOT = 3 };

// One line on stderr: "sframectl: <what>: <why>; <what to do>". Returns EXIT_CANNOT.
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
