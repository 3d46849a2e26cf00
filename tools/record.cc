// SPDX-License-Identifier: MIT
//
// sframectl record: options; the work is in record/recorder.cc.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <getopt.h>
#include <string>
#include "command.h"
#include "record/recorder.h"

using namespace sframe::record;

namespace {

constexpr uint64_t MAX_FREQUENCY = 20'000;

const char help[] =
	"Usage: sframectl record [OPTION...] [--] PROGRAM [ARGUMENT...]\n"
	"\n"
	"Run a program and sample the stacks of all its threads.\n"
	"\n"
	"  -F, --frequency HZ  samples per second of each thread (default 99)\n"
	"  -o, --output FILE   where the profile goes (default sframe.data)\n"
	"  -w, --wall          by wall-clock time: threads that wait are sampled too\n"
	"  -f, --follow        sample the program's children too\n"
	"      --signal N      the signal to use (default SIGRTMAX-2)\n"
	"\n"
	"Exits with the program's status. `sframectl report` shows the profile.\n";

enum { OPTION_SIGNAL = 256 };

const option options[] = {
	{ "frequency", required_argument, nullptr, 'F' }, { "output", required_argument, nullptr, 'o' },
	{ "wall", no_argument, nullptr, 'w' },		  { "follow", no_argument, nullptr, 'f' },
	{ "signal", required_argument, nullptr, OPTION_SIGNAL },
	{ "help", no_argument, nullptr, 'h' },		  { nullptr, 0, nullptr, 0 },
};

// A whole number in [low, high]; 0 if it is none.
uint64_t number(const char *text, uint64_t low, uint64_t high)
{
	char *end;

	errno = 0;
	const unsigned long long n = strtoull(text, &end, 10);
	return errno || end == text || *end || *text == '-' || n < low || n > high ? 0 : n;
}

int wrong(const char *text)
{
	complain("%s; `sframectl record --help` lists the options", text);
	return EXIT_USAGE;
}

} // namespace

int record_main(int argc, char **argv)
{
	RecordOptions o;

	optind = 0;
	for (int c; (c = getopt_long(argc, argv, "+:F:o:wfh", options, nullptr)) != -1;)
		switch (c) {
		case 'F':
			o.frequency = number(optarg, 1, MAX_FREQUENCY);
			if (!o.frequency)
				return wrong("-F takes a number from 1 to 20000");
			break;
		case 'o':
			o.file = optarg;
			break;
		case 'w':
			o.wall = true;
			break;
		case 'f':
			o.follow = true;
			break;
		case OPTION_SIGNAL:
			o.signo = static_cast<int>(number(optarg, 1, SIGRTMAX));
			if (!o.signo || o.signo == SIGKILL || o.signo == SIGSTOP)
				return wrong("--signal takes the number of a signal that can be caught");
			break;
		case 'h':
			fputs(help, stdout);
			return EXIT_OK;
		case ':':
			return wrong((std::string(argv[optind - 1]) + " needs a value").c_str());
		default:
			return wrong(("no option " + std::string(argv[optind - 1])).c_str());
		}
	if (optind == argc)
		return wrong("no program to run");
	o.argv = argv + optind;
	return record_program(o);
}
