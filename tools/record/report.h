// SPDX-License-Identifier: MIT
//
// A profile, for people and for programs. Each call returns the whole output.
#pragma once

#include <string>
#include <vector>
#include "profile.h"
#include "symbolize.h"
#include "tree.h"

namespace sframe::record {

// Figures, as one JSON object.
std::string report_json(const Profile &profile);

// Hottest functions and stacks, 100 columns wide. What has less than @least
// percent of the samples is left out of the tree.
std::string report_tree(const Profile &profile, Symbolizer &symbolizer, double least);

// FlameGraph's format: "thread;outermost;...;innermost COUNT".
std::string report_folded(const Profile &profile, Symbolizer &symbolizer);

// As `perf script` prints samples.
std::string report_perf(const Profile &profile, Symbolizer &symbolizer);

// A flame graph: one page that needs nothing else.
std::string report_html(const Profile &profile, Symbolizer &symbolizer);

// "sh -c 'exit 1'"-like, for headings.
std::string command_line(const Profile &profile);

// "1,234 samples of CPU time at 99 Hz" and what a reader must know of them.
std::vector<std::string> describe_profile(const Profile &profile);

} // namespace sframe::record
