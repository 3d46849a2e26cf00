// SPDX-License-Identifier: MIT
#include "report.h"

#include <algorithm>
#include <sframe/register.h>
#include <sframe/unwind.h>

namespace sframe::record {

namespace {

std::string member(const char *name, uint64_t value)
{
	std::string out = "\"";

	out += name;
	return out.append("\": ").append(std::to_string(value));
}

struct Sections {
	uint64_t native = 0, synthesized = 0, refused = 0;
};

// As the auditors counted; each image (exec, fork) has its own.
Sections count_sections(const Profile &profile)
{
	Sections s;

	for (const auto &[number, image] : profile.images) {
		s.native += image.native;
		s.synthesized += image.synthesized;
		s.refused += image.refused;
	}
	return s;
}

} // namespace

std::string report_json(const Profile &profile)
{
	uint64_t complete = 0, frames_sframe = 0, frames_fp = 0, frames_signal = 0;
	constexpr unsigned int REASONS = SFRAME_STOP_COUNT;
	uint64_t stops[REASONS + 1] = {};	// the last: of a newer recorder

	for (const Sample &s : profile.samples) {
		complete += s.complete();
		frames_sframe += s.frames_sframe;
		frames_fp += s.frames_fp;
		frames_signal += s.frames_signal;
		stops[std::min<unsigned int>(s.stop, REASONS)]++;
	}
	std::string reasons;
	for (unsigned int i = 0; i <= REASONS; i++)
		if (stops[i])
			reasons += (reasons.empty() ? "" : ", ") +
				   member(i < REASONS ? sframe_stop_name(i) : "unknown", stops[i]);
	const Sections sections = count_sections(profile);
	std::string out = "{\n";
	out += "  " + member("samples", profile.samples.size()) + ",\n";
	out += "  " + member("complete", complete) + ",\n";
	out += "  " + member("lost", profile.lost) + ",\n";
	out += "  " + member("threads", profile.threads().size()) + ",\n";
	out += "  \"stop_reasons\": {" + reasons + "},\n";
	out += "  \"sections\": {" + member("native", sections.native) + ", " +
	       member("synthesized", sections.synthesized) + ", " + member("refused", sections.refused) +
	       "},\n";
	out += "  \"frames\": {" + member("sframe", frames_sframe) + ", " + member("fp", frames_fp) + ", " +
	       member("signal", frames_signal) + "},\n";
	out += "  " + member("images", profile.images.size()) + ",\n";
	out += "  " + member("overruns", profile.overruns) + ",\n";
	out += "  " + member("timers", profile.timers) + ",\n";
	out += "  " + member("unsampled_threads", profile.unsampled_threads) + ",\n";
	out += "  " + member("period_ns", profile.header.period_ns) + ",\n";
	out += std::string("  \"clock\": \"") + (profile.header.wall ? "wall" : "cpu") + "\",\n";
	out += std::string("  \"whole\": ") + (profile.ended && !profile.truncated ? "true" : "false") + "\n";
	return out + "}\n";
}

} // namespace sframe::record
