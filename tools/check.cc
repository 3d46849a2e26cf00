// SPDX-License-Identifier: MIT
//
// sframectl check: is what a section says what .eh_frame says?
//
// Sections come from the file itself, from the library's synthesis, or from a
// file of bare section bytes; the judge is libdw (libdw_cfi.h).
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <getopt.h>
#include <memory>
#include <string>
#include <thread>
#include <vector>
#include <sframe/decode.h>
#include <sframe/synth.h>
#include "command.h"
#include "elf_file.h"
#include "json.h"
#include "libdw_cfi.h"
#include "progress.h"
#include "section_check.h"
#include "section_source.h"

namespace {

enum class Take { BEST, NATIVE, SYNTHESIZED };

struct Options {
	CheckOptions check;
	bool json = false;
	Take take = Take::BEST;
	pid_t pid = 0;
	std::string section;	// a file of bare section bytes to judge
	std::vector<std::string> files;
};

using Decoder = std::unique_ptr<sframe_decoder, decltype(&sframe_decoder_free)>;

// The section under judgement and what it lives in.
struct Section {
	~Section()
	{
		if (synth.section)
			sframe_synth_release(&synth);
	}

	const char *source = "";	// "native", "synthesized", "given"
	std::string note;		// why the file's own section is not the one
	sframe_synth synth = {};
	SectionSource shipped;	// native or given
	Bytes bytes;
	Decoder decoder{ nullptr, sframe_decoder_free };
};

struct FileResult {
	std::string path;
	std::string error;	// a sentence: the file could not be checked
	std::string source, note;
	int version = 0;
	SectionCheck check;
};

// Share of the functions of .eh_frame that a section knows.
bool is_meaningful(const sframe_decoder *decoder, const LibdwCfi &cfi)
{
	sframe_function fn;
	size_t known = 0;

	for (const LibdwCfi::Fde &fde : cfi.fdes())
		known += sframe_decoder_find(decoder, fde.start, &fn) == 0;
	return known * 10 >= cfi.fdes().size() * 9;
}

// A sentence's middle: "a.so: has no .sframe; do this" is " has no .sframe".
std::string without_path(const std::string &sentence, const ElfFile &file)
{
	const size_t start = file.path().size() + 2;

	return sentence.substr(start, sentence.find(';') - start);
}

// The file's own section; false with *why, a sentence, telling why not.
bool take_native(const std::shared_ptr<const ElfFile> &file, const LibdwCfi &cfi,
		 const Options &options, Section &section, std::string *why)
{
	if (!section.shipped.from_elf(file, why))
		return false;
	section.decoder.reset(section.shipped.decoder(why));
	if (!section.decoder) {
		section.note = without_path(*why, *file);
		return false;
	}
	if (options.take == Take::BEST && !is_meaningful(section.decoder.get(), cfi)) {
		section.note = "has a .sframe that knows too few functions";
		return false;
	}
	section.source = "native";
	section.bytes = section.shipped.bytes();
	return true;
}

bool take_synthesized(const ElfFile &file, Section &section, std::string *why)
{
	sframe_image image;
	int err = sframe_image_from_file(&image, file.bytes().data(), file.bytes().size());

	section.synth.size = sizeof(section.synth);
	if (!err)
		err = sframe_synthesize(&image, &section.synth);
	if (err) {
		*why = file.path() + ": no section could be made: " + strerror(-err) +
		       "; `readelf --debug-dump=frames` shows its .eh_frame";
		return false;
	}
	section.source = "synthesized";
	section.bytes = { static_cast<const unsigned char *>(section.synth.section),
			  section.synth.section_size };
	return true;
}

bool decode_made(Section &section, const std::string &name, std::string *why)
{
	sframe_decoder *decoder = nullptr;
	int reason = 0;
	const int err = sframe_decoder_new(&decoder, section.bytes.data(), section.bytes.size(), 0,
					   SFRAME_DECODE_FUNC_BASE, &reason);

	section.decoder.reset(decoder);
	if (err)
		*why = name + ": the section is refused: " +
		       (err == -EBADMSG ? sframe_decode_status_name(reason) : strerror(-err)) +
		       "; `sframectl synth -o` writes one that is not";
	return !err;
}

bool take_section(const std::shared_ptr<const ElfFile> &file, const LibdwCfi &cfi,
		  const Options &options, Section &section, std::string *why)
{
	if (!options.section.empty()) {
		section.source = "given";
		if (!section.shipped.from_file(options.section, 0, why))
			return false;
		section.bytes = section.shipped.bytes();
		return decode_made(section, options.section, why);
	}
	if (options.take != Take::SYNTHESIZED && take_native(file, cfi, options, section, why))
		return true;
	if (options.take == Take::NATIVE)
		return false;
	return take_synthesized(*file, section, why) && decode_made(section, file->path(), why);
}

std::unique_ptr<ElfFile> open_file(const std::string &path, const Options &options,
				   std::string *why)
{
	if (path == "[vdso]")
		return ElfFile::vdso(options.pid, why);
	return ElfFile::open(path, why);
}

// Fills the result; false with *why, a sentence, if there is nothing to fill in.
bool check_file(const Options &options, FileResult &result, std::string *why)
{
	const std::shared_ptr<const ElfFile> file = open_file(result.path, options, why);
	sframe_section_info info;
	LibdwCfi cfi;
	Section section;

	if (!file || !cfi.open(*file, why))
		return false;
	if (cfi.fdes().empty()) {
		*why = file->path() + ": its .eh_frame describes no function; there is nothing to "
				      "compare with";
		return false;
	}
	if (!take_section(file, cfi, options, section, why))
		return false;
	result.source = section.source;
	result.note = section.note;
	sframe_decoder_info(section.decoder.get(), &info);
	result.version = info.version;
	check_section(*file, cfi, section.decoder.get(), section.bytes.size(), options.check,
		      &result.check);
	return true;
}

// Two files at a time: each has its own libelf and libdw handles.
void check_all(const Options &options, std::vector<FileResult> &results)
{
	Progress progress("check", results.size());
	std::atomic<size_t> next = 0;
	auto work = [&] {
		for (size_t i; (i = next++) < results.size();) {
			std::string why;

			if (!check_file(options, results[i], &why))
				results[i].error = why;
			progress.step();
		}
	};
	const unsigned workers = std::min<unsigned>(2, static_cast<unsigned>(results.size()));
	std::vector<std::thread> threads;

	for (unsigned i = 1; i < workers; i++)
		threads.emplace_back(work);
	work();
	for (std::thread &thread : threads)
		thread.join();
}

double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 100.0;
}

void print_uncovered(const SectionCheck &check, const char *indent)
{
	for (int kind = 0; kind < SFRAME_UNCOVERED_COUNT; kind++)
		if (check.uncovered[kind])
			printf("%s%s: %" PRIu64 " ranges, %" PRIu64 " bytes\n", indent,
			       sframe_uncovered_name(kind), check.uncovered[kind],
			       check.uncovered_bytes[kind]);
}

void print_one(const FileResult &result)
{
	const SectionCheck &c = result.check;

	printf("%s: %s section, version %d%s%s\n", result.path.c_str(), result.source.c_str(),
	       result.version, result.note.empty() ? "" : "; ", result.note.c_str());
	printf("  functions       %10" PRIu64 " in .eh_frame, %" PRIu64 " entries in the section\n",
	       c.functions, c.entries);
	printf("  executable      %10" PRIu64 " bytes in segments, %.3f %% covered\n",
	       c.executable_bytes, percent(c.covered_bytes, c.executable_bytes));
	printf("  .eh_frame code  %10" PRIu64 " bytes, %.3f %% covered; expressible %.3f %%\n",
	       c.cfi_bytes, percent(c.cfi_covered_bytes, c.cfi_bytes),
	       percent(c.expressible_bytes, c.cfi_bytes));
	printf("  rows            %10" PRIu64 " in the section, %" PRIu64 " comparisons\n", c.rows,
	       c.compared);
	printf("  disagreements   %10" PRIu64 "\n", c.disagreements);
	printf("  missed          %10" PRIu64 " ranges that could be expressed, %" PRIu64 " bytes\n",
	       c.missed, c.missed_bytes);
	printf("  uncovered       %10" PRIu64 " bytes that SFrame cannot express\n",
	       c.uncovered_total());
	print_uncovered(c, "                             ");
	if (c.unjudged || c.unreadable_fdes)
		printf("  unjudged        %10" PRIu64 " ranges, %" PRIu64 " bytes, %" PRIu64
		       " FDEs that libdw cannot read\n",
		       c.unjudged, c.unjudged_bytes, c.unreadable_fdes);
	printf("  size            %10" PRIu64 " bytes, %.3f of .eh_frame + .eh_frame_hdr\n",
	       c.section_size, c.ratio());
}

void print_row(const char *name, const char *source, const SectionCheck &c)
{
	printf("%-28s %-6.6s %9" PRIu64 " %8.3f %8.3f %9" PRIu64 " %9" PRIu64 " %6" PRIu64
	       " %9" PRIu64 " %8" PRIu64 " %6.3f\n",
	       name, source, c.functions, percent(c.covered_bytes, c.executable_bytes),
	       percent(c.cfi_covered_bytes, c.cfi_bytes), c.rows, c.disagreements, c.missed,
	       c.uncovered_total(), c.unjudged_bytes, c.ratio());
}

void print_table(const std::vector<FileResult> &results, const SectionCheck &total)
{
	printf("%-28s %-6s %9s %8s %8s %9s %9s %6s %9s %8s %6s\n", "file", "from", "functions",
	       "% text", "% cfi", "rows", "disagree", "missed", "uncovered", "unjudged", "size");
	for (const FileResult &result : results)
		if (result.error.empty())
			print_row(result.path.substr(result.path.rfind('/') + 1).c_str(),
				  result.source.c_str(), result.check);
	print_row("total", "", total);
	print_uncovered(total, "uncovered by ");
}

void json_counts(Json &json, const SectionCheck &c)
{
	json.member("functions", c.functions).member("entries", c.entries)
		.member("rows", c.rows).member("compared", c.compared)
		.member("executable_bytes", c.executable_bytes)
		.member("covered_bytes", c.covered_bytes)
		.member("covered_percent", percent(c.covered_bytes, c.executable_bytes))
		.member("eh_frame_code_bytes", c.cfi_bytes)
		.member("eh_frame_code_covered_bytes", c.cfi_covered_bytes)
		.member("eh_frame_code_covered_percent", percent(c.cfi_covered_bytes, c.cfi_bytes))
		.member("expressible_bytes", c.expressible_bytes)
		.member("padding_bytes", c.padding_bytes)
		.member("disagreements", c.disagreements)
		.member("missed", c.missed).member("missed_bytes", c.missed_bytes)
		.member("unjudged", c.unjudged).member("unjudged_bytes", c.unjudged_bytes)
		.member("unreadable_fdes", c.unreadable_fdes);
	json.key("uncovered").open('{');
	for (int kind = 0; kind < SFRAME_UNCOVERED_COUNT; kind++)
		if (c.uncovered[kind])
			json.key(sframe_uncovered_name(kind)).open('{')
				.member("ranges", c.uncovered[kind])
				.member("bytes", c.uncovered_bytes[kind]).close();
	json.close();
	json.member("section_size", c.section_size).member("eh_frame_size", c.eh_frame_size)
		.member("ratio", c.ratio());
}

void print_json(const std::vector<FileResult> &results, const SectionCheck &total)
{
	Json json(stdout);

	json.open('{').key("files").open('[');
	for (const FileResult &result : results) {
		json.open('{').member("file", result.path);
		if (!result.error.empty()) {
			json.member("error", result.error).close();
			continue;
		}
		json.member("source", result.source).member("version", result.version);
		if (!result.note.empty())
			json.member("note", result.note);
		json_counts(json, result.check);
		json.key("findings").open('[');
		for (const std::string &finding : result.check.findings)
			json.value(finding);
		json.close().close();
	}
	json.close().key("total").open('{');
	json_counts(json, total);
	json.close().close();
}

void print_findings(const FileResult &result)
{
	const SectionCheck &c = result.check;
	const uint64_t all = c.disagreements + c.missed + c.unjudged;

	for (const std::string &finding : c.findings)
		printf("%s\n", finding.c_str());
	if (all > c.findings.size())
		printf("%s: %" PRIu64 " more; --limit shows more of them\n", result.path.c_str(),
		       all - c.findings.size());
}

int report(const Options &options, const std::vector<FileResult> &results)
{
	SectionCheck total;
	size_t failed = 0, made_poor = 0;

	for (const FileResult &result : results) {
		if (!result.error.empty()) {
			complain("%s", result.error.c_str());
			failed++;
			continue;
		}
		total.add(result.check);
		// A file may leave out what it likes; our own synthesis may not.
		made_poor += result.source != "native" && result.check.missed;
		if (!options.json)
			print_findings(result);
	}
	if (options.json)
		print_json(results, total);
	else if (results.size() - failed > 1)
		print_table(results, total);
	else
		for (const FileResult &result : results)
			if (result.error.empty())
				print_one(result);
	if (total.disagreements || made_poor)
		return EXIT_FOUND;
	return failed ? EXIT_CANNOT : EXIT_OK;
}

int help()
{
	puts("Usage: sframectl check [OPTION...] FILE...\n"
	     "       sframectl check [OPTION...] --pid PID\n"
	     "\n"
	     "Compare each row of a file's SFrame section with its .eh_frame, as libdw\n"
	     "understands that, and tell how much is covered. [vdso] as FILE is the vDSO\n"
	     "of the running kernel. Several files give a table with a total.\n"
	     "\n"
	     "      --synth        judge the section that the library makes, even if the file\n"
	     "                     has a usable .sframe (without one it is judged anyway)\n"
	     "      --native       judge the file's own .sframe, or fail\n"
	     "      --pid PID      check the vDSO of a running process\n"
	     "      --every-byte   compare at every byte, not once per row: slow\n"
	     "      --limit N      describe at most N findings a file (default 20)\n"
	     "      --json         print JSON\n"
	     "\n"
	     "Exit status: 0 everything agrees, 1 a row disagrees (or a synthesized section\n"
	     "lacks a row that it could have), 2 wrong usage, 3 a file could not be checked.");
	return EXIT_OK;
}

int wrong_usage(const char *what)
{
	complain("%s; `sframectl check --help` tells the options", what);
	return EXIT_USAGE;
}

bool parse_number(const char *text, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno;
}

// 0, or an exit code plus one.
int parse(int argc, char **argv, Options &options)
{
	enum { SYNTH = 256, NATIVE, PID, EVERY_BYTE, LIMIT, JSON, SECTION };
	static const option names[] = {
		{ "synth", no_argument, nullptr, SYNTH },
		{ "native", no_argument, nullptr, NATIVE },
		{ "pid", required_argument, nullptr, PID },
		{ "every-byte", no_argument, nullptr, EVERY_BYTE },
		{ "limit", required_argument, nullptr, LIMIT },
		{ "json", no_argument, nullptr, JSON },
		// For tests of the judge itself: a file of bare section bytes, offsets
		// being link-time addresses.
		{ "section", required_argument, nullptr, SECTION },
		{ "help", no_argument, nullptr, 'h' },
		{},
	};
	uint64_t number;
	int c;

	optind = 0;
	opterr = 0;
	while ((c = getopt_long(argc, argv, "h", names, nullptr)) != -1)
		switch (c) {
		case SYNTH: options.take = Take::SYNTHESIZED; break;
		case NATIVE: options.take = Take::NATIVE; break;
		case EVERY_BYTE: options.check.every_byte = true; break;
		case JSON: options.json = true; break;
		case SECTION: options.section = optarg; break;
		case PID:
			if (!parse_number(optarg, &number) || number < 1 || number > INT32_MAX)
				return wrong_usage("--pid wants a process id") + 1;
			options.pid = static_cast<pid_t>(number);
			options.files.push_back("[vdso]");
			break;
		case LIMIT:
			if (!parse_number(optarg, &options.check.max_findings))
				return wrong_usage("--limit wants a number") + 1;
			break;
		case 'h':
			return help() + 1;
		default:
			return wrong_usage("wrong option, or its argument is missing") + 1;
		}
	options.files.insert(options.files.end(), argv + optind, argv + argc);
	if (options.files.empty())
		return wrong_usage("no file named") + 1;
	if (!options.section.empty() && options.files.size() > 1)
		return wrong_usage("--section goes with one file") + 1;
	return 0;
}

} // namespace

int check_main(int argc, char **argv)
{
	Options options;
	const int done = parse(argc, argv, options);

	if (done)
		return done - 1;
	std::vector<FileResult> results(options.files.size());
	for (size_t i = 0; i < results.size(); i++)
		results[i].path = options.files[i];
	check_all(options, results);
	return report(options, results);
}
