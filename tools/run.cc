// SPDX-License-Identifier: MIT
//
// sframectl run: start a program with registration on, and say in one line at
// its end what was registered.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <getopt.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../rtld-audit/report.h"
#include "command.h"
#include "runtime.h"

namespace {

using sframe::Report;
using sframe::ReportState;

struct Options {
	bool preload = false;
	bool follow = false;
	bool quiet = false;
};

// The file that the program's process maps through /proc/PID/fd: it has no
// name to be left behind, and no descriptor leaks into the program.
class ReportFile {
public:
	ReportFile()
	{
		fd_ = memfd_create("sframe-report", MFD_CLOEXEC);
		if (fd_ < 0 || ftruncate(fd_, sizeof(Report)) < 0)
			return;
		void *at = mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
		if (at == MAP_FAILED)
			return;
		report_ = static_cast<Report *>(at);
		report_->magic = sframe::kReportMagic;
		report_->size = sizeof(Report);
		path_ = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd_);
	}

	const std::string &path() const { return path_; }

	// The last whole states of all processes, added up. The other side may
	// write what it likes: numbers are numbers, indices are checked.
	uint32_t sum(ReportState *total) const
	{
		if (!report_)
			return 0;
		uint32_t used = __atomic_load_n(&report_->used, __ATOMIC_ACQUIRE);
		if (used > sframe::kReportSlots)
			used = sframe::kReportSlots;
		for (uint32_t i = 0; i < used; i++) {
			const auto &slot = report_->slot[i];
			const auto &state =
				slot.state[__atomic_load_n(&slot.current, __ATOMIC_ACQUIRE) & 1];

			add(state, total);
		}
		return used;
	}

private:
	static void add(const ReportState &state, ReportState *total)
	{
		total->stats.objects_native += state.stats.objects_native;
		total->stats.objects_synthesized += state.stats.objects_synthesized;
		total->stats.objects_refused += state.stats.objects_refused;
		total->stats.cache_hits += state.stats.cache_hits;
		total->stats.cache_misses += state.stats.cache_misses;
		total->stats.cache_errors += state.stats.cache_errors;
		total->nanoseconds += state.nanoseconds;
	}

	int fd_ = -1;
	Report *report_ = nullptr;
	std::string path_;
};

const char kHelp[] =
	"Usage: sframectl run [OPTION...] [--] PROGRAM [ARGUMENT...]\n"
	"\n"
	"Run PROGRAM with every object it loads registered, and print one line about it\n"
	"on stderr at the end. The exit status is the program's.\n"
	"\n"
	"  -p, --preload  hook dlopen() by LD_PRELOAD instead of using LD_AUDIT\n"
	"  -f, --follow   the programs that it starts, too\n"
	"  -q, --quiet    no summary\n"
	"  -h, --help     this\n";

// -1: go on; else the exit code.
int parse(int argc, char **argv, Options *options)
{
	static const struct option kLong[] = {
		{ "preload", no_argument, nullptr, 'p' }, { "follow", no_argument, nullptr, 'f' },
		{ "quiet", no_argument, nullptr, 'q' },	  { "help", no_argument, nullptr, 'h' },
		{ nullptr, 0, nullptr, 0 },
	};

	optind = 1;
	opterr = 0;
	for (int c; (c = getopt_long(argc, argv, "+pfqh", kLong, nullptr)) != -1;)
		switch (c) {
		case 'p':
			options->preload = true;
			break;
		case 'f':
			options->follow = true;
			break;
		case 'q':
			options->quiet = true;
			break;
		case 'h':
			fputs(kHelp, stdout);
			return EXIT_OK;
		default:
			complain("run: unknown option '%s'; `sframectl run --help` lists them",
				 argv[optind - 1]);
			return EXIT_USAGE;
		}
	if (optind == argc) {
		complain("run: no program; `sframectl run -- PROGRAM [ARGUMENT...]`");
		return EXIT_USAGE;
	}
	return -1;
}

void set_environment(const Options &options, const std::string &library, const ReportFile &report)
{
	prepend_variable(options.preload ? "LD_PRELOAD" : "LD_AUDIT", library);
	if (options.follow)
		setenv("SFRAME_INHERIT", "1", 1);
	if (!report.path().empty())
		setenv(sframe::kReportVariable, report.path().c_str(), 1);
}

void print_summary(const char *name, const ReportFile &report)
{
	ReportState total = {};
	const uint32_t processes = report.sum(&total);
	const auto n = [](uint64_t value) { return static_cast<unsigned long long>(value); };

	if (!processes) {
		complain("%s: nothing registered: the dynamic linker did not load us", name);
		return;
	}
	fprintf(stderr,
		"sframectl: %s: %llu objects registered (%llu native, %llu synthesized), "
		"%llu refused; cache: %llu hits, %llu made, %llu errors; %.1f ms",
		name, n(total.stats.objects_native + total.stats.objects_synthesized),
		n(total.stats.objects_native), n(total.stats.objects_synthesized),
		n(total.stats.objects_refused), n(total.stats.cache_hits),
		n(total.stats.cache_misses), n(total.stats.cache_errors),
		static_cast<double>(total.nanoseconds) / 1e6);
	if (processes > 1)
		fprintf(stderr, " in %u processes", processes);
	fputc('\n', stderr);
}

} // namespace

int run_main(int argc, char **argv)
{
	Options options;
	const int code = parse(argc, argv, &options);

	if (code >= 0)
		return code;
	char **const program_argv = argv + optind;
	const Program program = find_program(program_argv[0]);
	if (program.error) {
		complain("%s: %s", program_argv[0], strerror(program.error));
		return program.error == ENOENT ? 127 : 126;	// as shells do
	}
	const std::string library =
		runtime_library(options.preload ? "libsframe-preload.so" : "libsframe-audit.so");
	const bool watched = program.obstacle.empty() && !library.empty();
	if (!program.obstacle.empty())
		complain("%s: runs without registration: %s", program.linked.c_str(),
			 program.obstacle.c_str());
	else if (library.empty())
		complain("%s: runs without registration: our runtime library is not found; "
			 "set SFRAME_LIBDIR", program_argv[0]);

	const ReportFile report;
	const pid_t pid = fork();
	if (pid < 0)
		return complain("%s: cannot start: %s", program_argv[0], strerror(errno));
	if (pid == 0) {
		if (watched)
			set_environment(options, library, report);
		exec_program(program, program_argv);
		const int error = errno;
		complain("%s: %s", program_argv[0], strerror(error));
		_exit(error == ENOENT ? 127 : 126);
	}
	const int status = wait_for(pid);
	if (watched && !options.quiet)
		print_summary(program_argv[0], report);
	end_like(status);
}
