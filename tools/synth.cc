// SPDX-License-Identifier: MIT
//
// sframectl synth: sections from .eh_frame, for one file or a whole tree.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <climits>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <getopt.h>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>
#include <sframe/synth.h>
#include "command.h"
#include "elf_file.h"
#include "elf_tree.h"
#include "json.h"
#include "progress.h"

namespace {

struct Options {
	std::string out;
	bool cache = false, stats = false, json = false;
	std::vector<std::string> places;
};

enum class Outcome { FAILED, MADE, CACHED, NOTHING };

struct FileResult {
	std::string path;
	bool named = false;
	Outcome outcome = Outcome::FAILED;
	std::string error;
	uint64_t section_size = 0;
	int cache_error = 0;
	sframe_synth_stats stats = {};
};

// What sframe_synth_stats counts, by name.
struct Field {
	const char *name;
	uint64_t (*get)(const sframe_synth_stats &);
};

const Field fields[] = {
	{ "functions", [](const sframe_synth_stats &s) -> uint64_t { return s.functions; } },
	{ "empty_fdes", [](const sframe_synth_stats &s) -> uint64_t { return s.empty_fdes; } },
	{ "entries", [](const sframe_synth_stats &s) -> uint64_t { return s.entries; } },
	{ "rows", [](const sframe_synth_stats &s) -> uint64_t { return s.rows; } },
	{ "flex_entries", [](const sframe_synth_stats &s) -> uint64_t { return s.flex_entries; } },
	{ "mask_entries", [](const sframe_synth_stats &s) -> uint64_t { return s.mask_entries; } },
	{ "cfi_bytes", [](const sframe_synth_stats &s) { return s.cfi_bytes; } },
	{ "covered_bytes", [](const sframe_synth_stats &s) { return s.covered_bytes; } },
	{ "padding_bytes", [](const sframe_synth_stats &s) { return s.padding_bytes; } },
	{ "eh_frame_size", [](const sframe_synth_stats &s) { return s.eh_frame_size; } },
	{ "peak_memory", [](const sframe_synth_stats &s) { return s.peak_memory; } },
};

void add(sframe_synth_stats &to, const sframe_synth_stats &from)
{
	to.functions += from.functions;
	to.empty_fdes += from.empty_fdes;
	to.entries += from.entries;
	to.rows += from.rows;
	to.flex_entries += from.flex_entries;
	to.mask_entries += from.mask_entries;
	to.cfi_bytes += from.cfi_bytes;
	to.covered_bytes += from.covered_bytes;
	to.padding_bytes += from.padding_bytes;
	to.eh_frame_size += from.eh_frame_size;
	to.peak_memory = std::max(to.peak_memory, from.peak_memory);
	for (int kind = 0; kind < SFRAME_UNCOVERED_COUNT; kind++) {
		to.uncovered[kind] += from.uncovered[kind];
		to.uncovered_bytes[kind] += from.uncovered_bytes[kind];
	}
}

// Writes all bytes and closes; 0 or an errno.
int write_and_close(int fd, const void *bytes, size_t size)
{
	const auto *at = static_cast<const char *>(bytes);
	int error = 0;

	while (size && !error) {
		const ssize_t n = write(fd, at, size);

		if (n < 0 && errno != EINTR)
			error = errno;
		if (n > 0) {
			at += n;
			size -= static_cast<size_t>(n);
		}
	}
	if (close(fd) && !error)
		error = errno;
	return error;
}

// The reason why the file could not be written, or "". Half a section does not stay.
std::string write_file(const std::string &path, const void *bytes, size_t size)
{
	const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	struct stat st;
	int error = errno;

	if (fd >= 0) {
		const bool regular = !fstat(fd, &st) && S_ISREG(st.st_mode);

		error = write_and_close(fd, bytes, size);
		if (!error)
			return "";
		if (regular)
			unlink(path.c_str());
	}
	return path + ": cannot be written: " + strerror(error) +
	       "; name a place with room that you may write";
}

std::string synthesis_error(const std::string &path, int err)
{
	switch (err) {
	case -ENOENT:
		return path + ": has no .eh_frame to make a section from; build it with "
			      "-fasynchronous-unwind-tables";
	case -ENOEXEC:
		return path + ": nothing in its .eh_frame decodes; "
			      "`readelf --debug-dump=frames` shows it";
	default:
		return path + ": no section could be made: " + strerror(-err) + "; try again";
	}
}

// True if the call failed because there is no code that .eh_frame describes: a
// library of nothing but data, a file of debug information.
bool describes_nothing(const ElfFile &file, int err)
{
	const auto section = file.section(".eh_frame");

	if (err == -ENOENT)
		return true;
	return err == -ENOEXEC && section &&
	       std::all_of(section->bytes.begin(), section->bytes.end(),
			   [](unsigned char byte) { return byte == 0; });
}

void keep(const Options &options, const sframe_image &image, FileResult &result, int *err)
{
	sframe_cached cached = {};

	cached.size = sizeof(cached);
	*err = sframe_cache_get(&image, &cached);
	if (*err)
		return;
	result.outcome = cached.from_cache ? Outcome::CACHED : Outcome::MADE;
	result.section_size = cached.section_size;
	result.stats = cached.stats;
	result.cache_error = cached.cache_error;
	if (!options.out.empty())
		result.error = write_file(options.out, cached.section, cached.section_size);
	sframe_cache_release(&cached);
}

void make(const Options &options, const sframe_image &image, FileResult &result, int *err)
{
	sframe_synth synth = {};

	synth.size = sizeof(synth);
	*err = sframe_synthesize(&image, &synth);
	if (*err)
		return;
	result.outcome = Outcome::MADE;
	result.section_size = synth.section_size;
	result.stats = synth.stats;
	if (!options.out.empty())
		result.error = write_file(options.out, synth.section, synth.section_size);
	sframe_synth_release(&synth);
}

void synthesize_file(const Options &options, FileResult &result)
{
	const auto file = ElfFile::open(result.path, &result.error);
	sframe_image image;

	if (!file)
		return;
	int err = sframe_image_from_file(&image, file->bytes().data(), file->bytes().size());
	if (!err)
		(options.cache ? keep : make)(options, image, result, &err);
	if (err && describes_nothing(*file, err)) {
		result.outcome = Outcome::NOTHING;
		if (result.named)
			result.error = synthesis_error(result.path, -ENOENT);
	} else if (err) {
		result.error = synthesis_error(result.path, err);
	}
	if (!result.error.empty())
		result.outcome = Outcome::FAILED;
}

// One worker per core of the two that any machine has.
void synthesize_all(const Options &options, std::vector<FileResult> &results)
{
	Progress progress("synth", results.size());
	std::atomic<size_t> next = 0;
	auto work = [&] {
		for (size_t i; (i = next++) < results.size();) {
			synthesize_file(options, results[i]);
			if (!results[i].error.empty())
				progress.line("sframectl: %s", results[i].error.c_str());
			progress.step();
		}
	};
	std::thread second;

	if (results.size() > 1)
		second = std::thread(work);
	work();
	if (second.joinable())
		second.join();
}

struct Totals {
	uint64_t made = 0, cached = 0, nothing = 0, failed = 0;
	uint64_t section_size = 0;
	uint64_t cache_errors = 0;
	int cache_error = 0;
	sframe_synth_stats stats = {};
};

Totals add_up(const std::vector<FileResult> &results)
{
	Totals totals;

	for (const FileResult &result : results) {
		switch (result.outcome) {
		case Outcome::MADE: totals.made++; break;
		case Outcome::CACHED: totals.cached++; break;
		case Outcome::NOTHING: totals.nothing++; break;
		case Outcome::FAILED: totals.failed++; break;
		}
		if (result.cache_error) {
			totals.cache_errors++;
			totals.cache_error = result.cache_error;
		}
		totals.section_size += result.section_size;
		add(totals.stats, result.stats);
	}
	return totals;
}

double ratio(uint64_t section_size, const sframe_synth_stats &stats)
{
	return stats.eh_frame_size ? static_cast<double>(section_size) /
				     static_cast<double>(stats.eh_frame_size) : 0;
}

double covered_percent(const sframe_synth_stats &stats)
{
	return stats.cfi_bytes ? 100.0 * static_cast<double>(stats.covered_bytes) /
				 static_cast<double>(stats.cfi_bytes) : 100.0;
}

void print_stats(uint64_t section_size, const sframe_synth_stats &stats)
{
	printf("  %-16s %12" PRIu64 "\n", "section_size", section_size);
	for (const Field &field : fields)
		printf("  %-16s %12" PRIu64 "\n", field.name, field.get(stats));
	printf("  %-16s %12.3f\n", "ratio", ratio(section_size, stats));
	printf("  %-16s %12.3f\n", "covered_percent", covered_percent(stats));
	for (int kind = 0; kind < SFRAME_UNCOVERED_COUNT; kind++)
		if (stats.uncovered[kind])
			printf("  uncovered: %s: %" PRIu32 " rows, %" PRIu64 " bytes\n",
			       sframe_uncovered_name(kind), stats.uncovered[kind],
			       stats.uncovered_bytes[kind]);
}

void print_text(const Options &options, const std::vector<FileResult> &results,
		const ElfTree &tree, const Totals &totals)
{
	for (const FileResult &result : results) {
		if (result.outcome != Outcome::MADE && result.outcome != Outcome::CACHED)
			continue;
		if (!options.stats && results.size() > 1)
			continue;
		printf("%s: %s, %" PRIu64 " bytes, %" PRIu32 " functions, %.3f of .eh_frame + "
		       ".eh_frame_hdr\n",
		       result.path.c_str(),
		       result.outcome == Outcome::CACHED ? "in the cache" :
		       options.cache && !result.cache_error ? "made and cached" : "made",
		       result.section_size, result.stats.functions,
		       ratio(result.section_size, result.stats));
		if (options.stats)
			print_stats(result.section_size, result.stats);
	}
	if (results.size() == 1 && tree.unreadable().empty())
		return;
	printf("%zu files: %" PRIu64 " sections made, %" PRIu64 " were cached, %" PRIu64
	       " without code in .eh_frame, %" PRIu64 " failed; passed over: %" PRIu64
	       " ELF files that are no linked x86-64 objects, %zu unreadable\n",
	       results.size(), totals.made, totals.cached, totals.nothing, totals.failed,
	       tree.other_elf(), tree.unreadable().size());
	printf("total: %" PRIu64 " bytes, %" PRIu32 " functions, %.3f of .eh_frame + "
	       ".eh_frame_hdr\n",
	       totals.section_size, totals.stats.functions,
	       ratio(totals.section_size, totals.stats));
	if (options.stats)
		print_stats(totals.section_size, totals.stats);
}

void json_stats(Json &json, uint64_t section_size, const sframe_synth_stats &stats)
{
	json.member("section_size", section_size);
	for (const Field &field : fields)
		json.member(field.name, field.get(stats));
	json.member("ratio", ratio(section_size, stats))
		.member("covered_percent", covered_percent(stats));
	json.key("uncovered").open('{');
	for (int kind = 0; kind < SFRAME_UNCOVERED_COUNT; kind++)
		if (stats.uncovered[kind])
			json.key(sframe_uncovered_name(kind)).open('{')
				.member("rows", stats.uncovered[kind])
				.member("bytes", stats.uncovered_bytes[kind]).close();
	json.close();
}

void print_json(const std::vector<FileResult> &results, const ElfTree &tree, const Totals &totals)
{
	Json json(stdout);

	json.open('{').key("files").open('[');
	for (const FileResult &result : results) {
		static const char *const outcomes[] = { "failed", "made", "cached", "nothing" };

		json.open('{').member("file", result.path)
			.member("outcome", outcomes[static_cast<int>(result.outcome)]);
		if (!result.error.empty())
			json.member("error", result.error);
		if (result.cache_error)
			json.member("cache_error", strerror(-result.cache_error));
		if (result.outcome == Outcome::MADE || result.outcome == Outcome::CACHED)
			json_stats(json, result.section_size, result.stats);
		json.close();
	}
	json.close().key("total").open('{')
		.member("files", results.size()).member("made", totals.made)
		.member("cached", totals.cached).member("nothing", totals.nothing)
		.member("failed", totals.failed).member("other_elf", tree.other_elf())
		.member("unreadable", tree.unreadable().size());
	json_stats(json, totals.section_size, totals.stats);
	json.close().close();
}

void complain_about_cache(const Totals &totals)
{
	char directory[PATH_MAX];
	const int err = sframe_cache_directory(directory, sizeof(directory));

	complain("%s: %" PRIu64 " sections could not be cached: %s; set XDG_CACHE_HOME to a "
		 "directory that only you may write", err ? "the cache" : directory,
		 totals.cache_errors, strerror(-totals.cache_error));
}

int help()
{
	puts("Usage: sframectl synth [OPTION...] FILE|DIRECTORY...\n"
	     "\n"
	     "Make an SFrame section from the .eh_frame of each file; of a directory, from\n"
	     "each linked x86-64 ELF object in the tree below it.\n"
	     "\n"
	     "  -o, --output OUT   write the bare section of the one FILE; its function\n"
	     "                     offsets are link-time addresses\n"
	     "      --cache        put the sections where the auditor finds them\n"
	     "                     ($XDG_CACHE_HOME/sframe, else ~/.cache/sframe)\n"
	     "      --stats        print counts of each file\n"
	     "      --json         print JSON\n"
	     "\n"
	     "Exit status: 0, 2 wrong usage, 3 something could not be read, made or written.");
	return EXIT_OK;
}

int wrong_usage(const char *what)
{
	complain("%s; `sframectl synth --help` tells the options", what);
	return EXIT_USAGE;
}

// 0, or an exit code plus one.
int parse(int argc, char **argv, Options &options)
{
	enum { CACHE = 256, STATS, JSON };
	static const option names[] = {
		{ "output", required_argument, nullptr, 'o' },
		{ "cache", no_argument, nullptr, CACHE },
		{ "stats", no_argument, nullptr, STATS },
		{ "json", no_argument, nullptr, JSON },
		{ "help", no_argument, nullptr, 'h' },
		{},
	};
	int c;

	optind = 0;
	opterr = 0;
	while ((c = getopt_long(argc, argv, "o:h", names, nullptr)) != -1)
		switch (c) {
		case 'o': options.out = optarg; break;
		case CACHE: options.cache = true; break;
		case STATS: options.stats = true; break;
		case JSON: options.json = true; break;
		case 'h':
			return help() + 1;
		default:
			return wrong_usage("wrong option, or its argument is missing") + 1;
		}
	options.places.assign(argv + optind, argv + argc);
	return options.places.empty() ? wrong_usage("no file named") + 1 : 0;
}

} // namespace

int synth_main(int argc, char **argv)
{
	Options options;
	ElfTree tree;
	const int done = parse(argc, argv, options);

	if (done)
		return done - 1;
	for (const std::string &place : options.places)
		tree.add(place);
	if (!options.out.empty() && !(tree.files().size() == 1 && tree.files()[0].named))
		return wrong_usage("-o goes with one file");
	for (const std::string &problem : tree.unreadable())
		complain("%s", problem.c_str());
	std::vector<FileResult> results(tree.files().size());
	for (size_t i = 0; i < results.size(); i++) {
		results[i].path = tree.files()[i].path;
		results[i].named = tree.files()[i].named;
	}
	synthesize_all(options, results);
	const Totals totals = add_up(results);
	if (options.json)
		print_json(results, tree, totals);
	else
		print_text(options, results, tree, totals);
	if (totals.cache_errors)
		complain_about_cache(totals);
	const bool clean = !totals.failed && !totals.cache_errors && tree.unreadable().empty();
	return clean ? EXIT_OK : EXIT_CANNOT;
}
