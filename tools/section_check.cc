// SPDX-License-Identifier: MIT
#include "section_check.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <optional>
#include "frame_rule.h"
#include "padding.h"

namespace {

struct Range {
	uint64_t start, end;
};

// What the section says of a PC, and up to where.
struct SframeAnswer {
	int status;		// 0, -ENOENT (not covered), -EBADMSG
	uint64_t end;
	sframe_decoded_row row;	// canonical
};

class Checker {
public:
	Checker(const ElfFile &file, const LibdwCfi &cfi, const sframe_decoder *decoder,
		const CheckOptions &options, SectionCheck &result)
		: file_(file), cfi_(cfi), decoder_(decoder), options_(options), result_(result)
	{
	}

	void run()
	{
		read_functions();
		check_fdes();
		check_outside();
		result_.executable_bytes = file_.executable_size();
	}

private:
	void read_functions();
	void check_fdes();
	void check_fde(uint64_t start, const LibdwCfi::Fde &fde, bool overlapped);
	void check_outside();
	void check_gap(uint64_t start, uint64_t end);
	SframeAnswer section_says(uint64_t pc);
	uint64_t next_function_after(uint64_t pc, uint64_t limit) const;
	void judge(const Range &at, const LibdwCfi::Row &libdw, const SframeAnswer &sframe,
		   bool overlapped);
	void count_uncovered(const Range &at, const LibdwCfi::Row &libdw,
			     const SframeAnswer &sframe, bool overlapped);
	void unjudged(const Range &at, const LibdwCfi::Row &libdw, const SframeAnswer &sframe);
	void note(const Range &at, const std::string &what);
	void disagree(const Range &at, const std::string &eh_frame, const std::string &sframe);
	std::string where(const Range &at);

	const ElfFile &file_;
	const LibdwCfi &cfi_;
	const sframe_decoder *decoder_;
	const CheckOptions &options_;
	SectionCheck &result_;
	std::optional<SymbolTable> symbols_;	// read when the first finding wants a name
	std::vector<Range> functions_;		// of the section, by address
};

std::string Checker::where(const Range &at)
{
	char range[64];

	if (!symbols_)
		symbols_.emplace(file_);
	snprintf(range, sizeof(range), "%#" PRIx64 "-%#" PRIx64, at.start, at.end);
	return std::string(file_.name()) + ": " + range + " " + symbols_->describe(at.start, true);
}

void Checker::note(const Range &at, const std::string &what)
{
	if (result_.findings.size() < options_.max_findings)
		result_.findings.push_back(where(at) + ": " + what);
}

void Checker::disagree(const Range &at, const std::string &eh_frame, const std::string &sframe)
{
	result_.disagreements++;
	note(at, ".eh_frame says " + eh_frame + ", .sframe says " + sframe);
}

void Checker::unjudged(const Range &at, const LibdwCfi::Row &libdw, const SframeAnswer &sframe)
{
	result_.unjudged++;
	result_.unjudged_bytes += at.end - at.start;
	note(at, "libdw gives no answer (" + libdw.text + "), .sframe says " +
			 (sframe.status ? "nothing" : row_text(sframe.row)));
}

void Checker::read_functions()
{
	sframe_section_info info;
	sframe_function fn;
	int status = 0;

	sframe_decoder_info(decoder_, &info);
	result_.entries = info.num_fdes;
	for (uint32_t i = 0; i < info.num_fdes; i++) {
		status = sframe_decoder_function(decoder_, i, &fn);
		if (status) {
			disagree({ 0, 0 }, "nothing", "entry " + std::to_string(i) + " is damaged");
			continue;
		}
		const Range range{ fn.start, fn.start + fn.size };
		result_.rows += fn.num_rows;
		if (!functions_.empty() && range.start < functions_.back().end)
			disagree(range, "nothing", "two entries overlap or are out of order");
		functions_.push_back(range);
		for (uint64_t at = range.start; at < range.end; at++)
			if (file_.is_executable(at)) {
				// Segments are long: the last byte tells for the rest.
				if (file_.is_executable(range.end - 1)) {
					result_.covered_bytes += range.end - at;
					break;
				}
				result_.covered_bytes++;
			}
	}
	std::sort(functions_.begin(), functions_.end(),
		  [](const Range &a, const Range &b) { return a.start < b.start; });
}

uint64_t Checker::next_function_after(uint64_t pc, uint64_t limit) const
{
	auto next = std::upper_bound(functions_.begin(), functions_.end(), pc,
				     [](uint64_t a, const Range &f) { return a < f.start; });

	return next == functions_.end() ? limit : std::min(next->start, limit);
}

SframeAnswer Checker::section_says(uint64_t pc)
{
	SframeAnswer answer{ 0, UINT64_MAX, {} };
	sframe_function fn;

	answer.status = sframe_decoder_find(decoder_, pc, &fn);
	if (answer.status == -ENOENT) {
		answer.end = next_function_after(pc, UINT64_MAX);
		return answer;
	}
	if (!answer.status)
		answer.status = sframe_decoder_lookup(decoder_, pc, &answer.row);
	if (answer.status || fn.pctype)
		answer.end = pc + 1;
	else
		answer.end = fn.start + answer.row.end;
	answer.row = canonical(answer.row);
	return answer;
}

void Checker::count_uncovered(const Range &at, const LibdwCfi::Row &libdw,
			      const SframeAnswer &sframe, bool overlapped)
{
	const uint64_t bytes = at.end - at.start;
	int kind = libdw.kind;

	if (libdw.verdict == LibdwCfi::UNJUDGED) {
		unjudged(at, libdw, sframe);
		return;
	}
	if (libdw.verdict == LibdwCfi::EXPRESSIBLE) {
		if (file_.is_executable(at.start) && !overlapped) {
			result_.expressible_bytes += bytes;
			result_.missed++;
			result_.missed_bytes += bytes;
			note(at, "has no row, .eh_frame says " + row_text(libdw.row));
			return;
		}
		kind = overlapped ? SFRAME_UNCOVERED_OVERLAP : SFRAME_UNCOVERED_BAD_RANGE;
	}
	result_.uncovered[kind]++;
	result_.uncovered_bytes[kind] += bytes;
}

// One interval on which neither side changes.
void Checker::judge(const Range &at, const LibdwCfi::Row &libdw, const SframeAnswer &sframe,
		    bool overlapped)
{
	const uint64_t bytes = at.end - at.start;

	result_.cfi_bytes += bytes;
	if (sframe.status == -ENOENT) {
		count_uncovered(at, libdw, sframe, overlapped);
		return;
	}
	result_.compared++;
	result_.cfi_covered_bytes += bytes;
	if (libdw.verdict == LibdwCfi::EXPRESSIBLE)
		result_.expressible_bytes += bytes;
	if (sframe.status) {
		disagree(at, libdw.verdict == LibdwCfi::EXPRESSIBLE ? row_text(libdw.row) : libdw.text,
			 "nothing: damaged");
	} else if (libdw.verdict == LibdwCfi::UNJUDGED) {
		unjudged(at, libdw, sframe);
	} else if (libdw.verdict == LibdwCfi::NOT_EXPRESSIBLE) {
		disagree(at, libdw.text, row_text(sframe.row));
	} else {
		sframe_decoded_row expected = libdw.row;

		if (libdw.fp_undefined && !expected.outermost)
			expected.fp = sframe.row.fp;
		if (!same_row(expected, sframe.row))
			disagree(at, row_text(libdw.row), row_text(sframe.row));
	}
}

void Checker::check_fde(uint64_t start, const LibdwCfi::Fde &fde, bool overlapped)
{
	LibdwCfi::Row libdw{};
	SframeAnswer sframe{};

	for (uint64_t pc = start, next; pc < fde.end; pc = next) {
		if (pc >= libdw.end || options_.every_byte)
			libdw = cfi_.row_at(pc);
		if (pc >= sframe.end || options_.every_byte)
			sframe = section_says(pc);
		next = options_.every_byte ? pc + 1 :
			std::min({ libdw.end, sframe.end, fde.end });
		judge({ pc, next }, libdw, sframe, overlapped);
	}
}

// Where FDEs overlap the first one's walk covers the common bytes.
void Checker::check_fdes()
{
	const std::vector<LibdwCfi::Fde> &fdes = cfi_.fdes();
	uint64_t done = 0;

	for (size_t i = 0; i < fdes.size(); i++) {
		const bool overlapped = fdes[i].start < done ||
			(i + 1 < fdes.size() && fdes[i + 1].start < fdes[i].end);

		check_fde(std::max(done, fdes[i].start), fdes[i], overlapped);
		done = std::max(done, fdes[i].end);
	}
	result_.functions = fdes.size();
	result_.unreadable_fdes = cfi_.unreadable_fdes();
	result_.eh_frame_size = cfi_.section_size();
}

// What the section covers and .eh_frame does not: padding between neighbours that
// share an entry is harmless, as no return address points behind it.
void Checker::check_gap(uint64_t start, uint64_t end)
{
	const Bytes bytes = file_.at(start, end - start);

	if (bytes.size() == end - start && is_padding(bytes)) {
		result_.padding_bytes += end - start;
		return;
	}
	const SframeAnswer sframe = section_says(start);
	disagree({ start, end }, "nothing", sframe.status ? "nothing" : row_text(sframe.row));
}

void Checker::check_outside()
{
	const std::vector<LibdwCfi::Fde> &fdes = cfi_.fdes();
	size_t i = 0;

	for (const Range &fn : functions_) {
		uint64_t pc = fn.start;

		while (i < fdes.size() && fdes[i].end <= pc)
			i++;
		for (size_t k = i; pc < fn.end; k++) {
			const uint64_t next = k < fdes.size() ? std::min(fdes[k].start, fn.end) :
								fn.end;
			if (next > pc)
				check_gap(pc, next);
			if (k >= fdes.size())
				break;
			pc = std::max(pc, fdes[k].end);
			if (next == fn.end)
				break;
		}
	}
}

} // namespace

void SectionCheck::add(const SectionCheck &other)
{
	functions += other.functions;
	entries += other.entries;
	rows += other.rows;
	compared += other.compared;
	executable_bytes += other.executable_bytes;
	covered_bytes += other.covered_bytes;
	cfi_bytes += other.cfi_bytes;
	cfi_covered_bytes += other.cfi_covered_bytes;
	expressible_bytes += other.expressible_bytes;
	padding_bytes += other.padding_bytes;
	disagreements += other.disagreements;
	missed += other.missed;
	missed_bytes += other.missed_bytes;
	unjudged += other.unjudged;
	unjudged_bytes += other.unjudged_bytes;
	unreadable_fdes += other.unreadable_fdes;
	for (int i = 0; i < SFRAME_UNCOVERED_COUNT; i++) {
		uncovered[i] += other.uncovered[i];
		uncovered_bytes[i] += other.uncovered_bytes[i];
	}
	section_size += other.section_size;
	eh_frame_size += other.eh_frame_size;
}

uint64_t SectionCheck::uncovered_total() const
{
	uint64_t total = 0;

	for (const uint64_t bytes : uncovered_bytes)
		total += bytes;
	return total;
}

double SectionCheck::ratio() const
{
	return eh_frame_size ? static_cast<double>(section_size) /
				       static_cast<double>(eh_frame_size) : 0;
}

void check_section(const ElfFile &file, const LibdwCfi &cfi, const sframe_decoder *decoder,
		   size_t section_size, const CheckOptions &options, SectionCheck *result)
{
	*result = {};
	result->section_size = section_size;
	Checker(file, cfi, decoder, options, *result).run();
}
