// SPDX-License-Identifier: MIT
//
// sframectl: what a person types. Dispatch, help and errors; the work is in
// one file per subcommand.
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include "command.h"

const Command commands[] = {
	{ "run", "[-pfq] -- PROGRAM...", "run a program with registration on", run_main },
	{ "record", "[-F HZ] [-o FILE] -- PROGRAM...", "sample the stacks of a program", record_main },
	{ "report", "[FILE]", "show what was recorded", report_main },
	{ "dump", "[--json] FILE|PID:ADDRESS", "show a section in words", dump_main },
	{ "synth", "[-o OUT|--cache] FILE...", "make sections from .eh_frame", synth_main },
	{ "check", "[--synth] [--json] FILE...", "compare sections with .eh_frame", check_main },
	{ "list", "[--json] [PID]", "show what a process has registered", list_main },
	{ nullptr, nullptr, nullptr, nullptr },
};

int complain(const char *format, ...)
{
	va_list ap;

	fputs("sframectl: ", stderr);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	return EXIT_CANNOT;
}

static int usage(FILE *out)
{
	fputs("Usage: sframectl COMMAND [ARGUMENT...]\n\nCommands:\n", out);
	for (const Command *c = commands; c->name; c++)
		fprintf(out, "  %-8s %-34s %s\n", c->name, c->usage, c->summary);
	fputs("\n`sframectl COMMAND --help` tells more; so does the manual page sframectl(1).\n", out);
	return out == stdout ? EXIT_OK : EXIT_USAGE;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return usage(stderr);
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
		return usage(stdout);
	if (!strcmp(argv[1], "--version")) {
		puts("sframectl " SFRAME_PROJECT_VERSION);
		return EXIT_OK;
	}
	for (const Command *c = commands; c->name; c++)
		if (!strcmp(argv[1], c->name))
			return c->run(argc - 1, argv + 1);
	complain("no command '%s'; `sframectl --help` lists them", argv[1]);
	return EXIT_USAGE;
}
