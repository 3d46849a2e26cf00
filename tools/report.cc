// SPDX-License-Identifier: MIT
//
// sframectl report: options; what is printed comes from record/.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <getopt.h>
#include <string>
#include "command.h"
#include "record/profile.h"
#include "record/report.h"

using namespace sframe::record;

namespace {

const char help[] =
	"Usage: sframectl report [OPTION...] [FILE]\n"
	"\n"
	"Show what `sframectl record` wrote (default sframe.data).\n"
	"\n"
	"      --tree        hottest stacks and functions, as text (the default)\n"
	"      --folded      one line per stack: frames;of;the;stack COUNT\n"
	"      --html OUT    a flame graph in one self-contained file\n"
	"      --json        figures for programs\n"
	"      --perf        as `perf script` prints samples\n"
	"      --min PERCENT leave out of the tree what is less (default 1)\n";

enum { OPTION_TREE = 256, OPTION_FOLDED, OPTION_HTML, OPTION_JSON, OPTION_PERF, OPTION_MIN };

const option options[] = {
	{ "tree", no_argument, nullptr, OPTION_TREE },	    { "folded", no_argument, nullptr, OPTION_FOLDED },
	{ "html", required_argument, nullptr, OPTION_HTML }, { "json", no_argument, nullptr, OPTION_JSON },
	{ "perf", no_argument, nullptr, OPTION_PERF },	    { "min", required_argument, nullptr, OPTION_MIN },
	{ "help", no_argument, nullptr, 'h' },		    { nullptr, 0, nullptr, 0 },
};

int wrong(const std::string &text)
{
	complain("%s; `sframectl report --help` lists the options", text.c_str());
	return EXIT_USAGE;
}

int write_file(const char *path, const std::string &text)
{
	FILE *const out = fopen(path, "w");
	bool ok = out && fwrite(text.data(), 1, text.size(), out) == text.size();

	if (out && fclose(out))
		ok = false;
	return ok ? EXIT_OK : complain("%s: %s; name another file", path, strerror(errno));
}

} // namespace

int report_main(int argc, char **argv)
{
	int format = OPTION_TREE;
	const char *html = nullptr;
	double least = 1;

	optind = 0;
	for (int c; (c = getopt_long(argc, argv, ":h", options, nullptr)) != -1;)
		switch (c) {
		case OPTION_HTML:
			html = optarg;
			format = c;
			break;
		case OPTION_TREE:
		case OPTION_FOLDED:
		case OPTION_JSON:
		case OPTION_PERF:
			format = c;
			break;
		case OPTION_MIN: {
			char *end;
			least = strtod(optarg, &end);
			if (end == optarg || *end || !(least >= 0 && least <= 100))
				return wrong("--min takes a number from 0 to 100");
			break;
		}
		case 'h':
			fputs(help, stdout);
			return EXIT_OK;
		case ':':
			return wrong(std::string(argv[optind - 1]) + " needs a value");
		default:
			return wrong("no option " + std::string(argv[optind - 1]));
		}
	if (argc - optind > 1)
		return wrong("more than one file");
	const std::string path = optind < argc ? argv[optind] : "sframe.data";

	Profile profile;
	std::string why;
	if (!read_profile_file(path, &profile, &why))
		return complain("%s: %s; `sframectl record -o %s -- PROGRAM` makes one", path.c_str(),
				why.c_str(), path.c_str());
	Symbolizer symbolizer(profile);
	switch (format) {
	case OPTION_TREE:
		fputs(report_tree(profile, symbolizer, least).c_str(), stdout);
		break;
	case OPTION_FOLDED:
		fputs(report_folded(profile, symbolizer).c_str(), stdout);
		break;
	case OPTION_PERF:
		fputs(report_perf(profile, symbolizer).c_str(), stdout);
		break;
	case OPTION_HTML:
		return write_file(html, report_html(profile, symbolizer));
	case OPTION_JSON:
		fputs(report_json(profile).c_str(), stdout);
		break;
	}
	return fflush(stdout) == 0 ? EXIT_OK : complain("standard output: %s", strerror(errno));
}
