// SPDX-License-Identifier: MIT
//
// Reports in text: tree and tables, folded stacks, perf script.
#include "report.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace sframe::record {

namespace {

constexpr size_t WIDTH = 100;
constexpr size_t TABLE_ROWS = 20, THREAD_ROWS = 10;

std::string format(const char *how, ...) __attribute__((format(printf, 1, 2)));
std::string format(const char *how, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, how);
	vsnprintf(text, sizeof(text), how, ap);
	va_end(ap);
	return text;
}

double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::string grouped(uint64_t n)
{
	std::string s = std::to_string(n);

	for (size_t at = s.size(); at > 3;) {
		at -= 3;
		s.insert(at, 1, ',');
	}
	return s;
}

// Bytes of a UTF-8 text that are no continuation.
size_t columns(const std::string &s)
{
	return std::count_if(s.begin(), s.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

// Long C++ names lose their middle, where the least is to be learned.
std::string shortened(const std::string &name, size_t width)
{
	if (name.size() <= width || width < 8)
		return name;
	const size_t head = (width - 1) * 2 / 3, tail = width - 1 - head;
	return name.substr(0, head) + "…" + name.substr(name.size() - tail);
}

std::string label(const Function &f, size_t width)
{
	const std::string object = f.object.empty() ? "" : format("  [%s]", f.object.c_str());
	const size_t room = width > object.size() + 16 ? width - object.size() : 16;

	// A stripped function carries its object's name already.
	if (f.name.compare(0, f.object.size() + 1, f.object + "+") == 0)
		return shortened(f.name, width);
	return shortened(f.name, room) + object;
}

// ---- tables -------------------------------------------------------------------

std::string function_table(const Profile &profile, Symbolizer &symbolizer)
{
	const std::vector<FunctionCost> costs = function_costs(profile, symbolizer);
	const uint64_t all = profile.samples.size();
	std::vector<uint32_t> order;
	std::string out = "   self   total  samples  function\n";

	for (uint32_t i = 0; i < costs.size(); i++)
		if (costs[i].self)
			order.push_back(i);
	std::stable_sort(order.begin(), order.end(),
			 [&](uint32_t a, uint32_t b) { return costs[a].self > costs[b].self; });
	for (size_t i = 0; i < order.size() && i < TABLE_ROWS; i++) {
		const FunctionCost &c = costs[order[i]];
		out += format(" %5.1f%%  %5.1f%%  %7llu  ", percent(c.self, all), percent(c.total, all),
			      static_cast<unsigned long long>(c.self));
		out += label(symbolizer.functions()[order[i]], WIDTH - 27) + "\n";
	}
	if (order.size() > TABLE_ROWS)
		out += format(" %25s %zu more\n", "", order.size() - TABLE_ROWS);
	return out;
}

std::string thread_table(const Profile &profile)
{
	std::map<std::pair<uint32_t, uint32_t>, std::pair<uint64_t, std::string>> threads;
	std::string out = "  share  samples  thread\n";

	for (const Sample &s : profile.samples) {
		auto &[count, name] = threads[{ s.pid, s.tid }];
		if (!count++)
			name = thread_name(profile, s);
	}
	if (threads.size() < 2)
		return "";
	std::vector<decltype(threads)::const_iterator> order;
	for (auto it = threads.cbegin(); it != threads.cend(); ++it)
		order.push_back(it);
	std::stable_sort(order.begin(), order.end(),
			 [](auto a, auto b) { return a->second.first > b->second.first; });
	for (size_t i = 0; i < order.size() && i < THREAD_ROWS; i++) {
		const auto &[key, value] = *order[i];
		out += format(" %5.1f%%  %7llu  %s %u/%u\n", percent(value.first, profile.samples.size()),
			      static_cast<unsigned long long>(value.first), value.second.c_str(), key.first,
			      key.second);
	}
	if (order.size() > THREAD_ROWS)
		out += format(" %16s %zu more\n", "", order.size() - THREAD_ROWS);
	return out + "\n";
}

// ---- tree ---------------------------------------------------------------------

// Calls that lead to one place only stand below each other; branches indent.
class TreePrinter {
public:
	TreePrinter(const CallTree &tree, double least) : tree_(tree)
	{
		least_ = std::max<uint64_t>(1, static_cast<uint64_t>(
			static_cast<double>(tree.nodes[0].total) * least / 100));
	}

	std::string print()
	{
		out_ = "  total    self  stack\n";
		for (const uint32_t thread : tree_.children_of(tree_.nodes[0]))
			if (tree_.nodes[thread].total >= least_)
				chain(thread, "", "");
		return std::move(out_);
	}

private:
	// A node and what follows it as long as there is one way to go.
	void chain(uint32_t number, std::string first, const std::string &rest)
	{
		for (;;) {
			line(tree_.nodes[number], first);
			first = rest;
			const std::vector<uint32_t> next = worth_showing(tree_.nodes[number]);
			if (next.size() != 1) {
				branches(next, rest);
				return;
			}
			number = next[0];
		}
	}

	void branches(const std::vector<uint32_t> &next, const std::string &indent)
	{
		for (size_t i = 0; i < next.size(); i++) {
			const bool last = i + 1 == next.size();
			chain(next[i], indent + (last ? "└ " : "├ "), indent + (last ? "  " : "│ "));
		}
	}

	std::vector<uint32_t> worth_showing(const CallTree::Node &node) const
	{
		std::vector<uint32_t> out = tree_.children_of(node);

		while (!out.empty() && tree_.nodes[out.back()].total < least_)
			out.pop_back();
		return out;
	}

	void line(const CallTree::Node &node, const std::string &indent)
	{
		const uint64_t all = tree_.nodes[0].total;
		const Function &f = tree_.functions[node.function];

		out_ += format(" %5.1f%%", percent(node.total, all));
		out_ += node.self ? format("  %5.1f%%  ", percent(node.self, all)) : "          ";
		const size_t used = 17 + columns(indent);
		out_ += indent;
		if (node.function >= tree_.first_thread)
			out_ += "thread ";
		out_ += label(f, WIDTH > used ? WIDTH - used : 0) + "\n";
	}

	const CallTree &tree_;
	uint64_t least_;
	std::string out_;
};

} // namespace

std::string command_line(const Profile &profile)
{
	std::string out;

	for (const std::string &arg : profile.command) {
		const bool plain = !arg.empty() && arg.find_first_of(" \t\n'\"\\$`;&|<>()*?") == std::string::npos;
		if (!out.empty())
			out += " ";
		out += plain ? "" : "'";
		out += arg;
		out += plain ? "" : "'";
	}
	std::replace(out.begin(), out.end(), '\n', ' ');
	return out;
}

std::vector<std::string> describe_profile(const Profile &profile)
{
	std::vector<std::string> out;
	uint64_t complete = 0;

	for (const Sample &s : profile.samples)
		complete += s.complete();
	const double hertz = profile.header.period_ns ? 1e9 / static_cast<double>(profile.header.period_ns) : 0;
	const uint64_t start = profile.header.start_monotonic_ns;
	const uint64_t last = profile.ended ? profile.end_monotonic_ns :
			      profile.samples.empty() ? start : profile.samples.back().time_ns;
	out.push_back(grouped(profile.samples.size()) +
		      format(" samples of %s at %.0f Hz, %zu threads, %.1f s",
			     profile.header.wall ? "wall time" : "CPU time", hertz, profile.threads().size(),
			     static_cast<double>(last > start ? last - start : 0) / 1e9));
	out.push_back(format("%.1f %% of the stacks complete by SFrame, ",
			     percent(complete, profile.samples.size())) +
		      grouped(profile.lost) + " samples lost");
	if (profile.overruns)
		out.push_back(grouped(profile.overruns) +
			      " periods passed over: the kernel's tick is slower than that, or signals waited");
	if (profile.unsampled_threads)
		out.push_back(grouped(profile.unsampled_threads) +
			      " threads not sampled: no timer to be had (ulimit -i)");
	if (!profile.ended)
		out.push_back("the recorder did not end by itself: the profile goes as far as it came");
	if (profile.truncated)
		out.push_back("the file is damaged behind this point, or was being written");
	return out;
}

std::string report_tree(const Profile &profile, Symbolizer &symbolizer, double least)
{
	const CallTree tree = make_tree(profile, symbolizer);
	std::string out = shortened(command_line(profile), WIDTH) + "\n";

	for (const std::string &line : describe_profile(profile))
		out += line + "\n";
	for (const std::string &line : symbolizer.complaints())
		out += line + "\n";
	if (profile.samples.empty())
		return out;
	out += "\n" + function_table(profile, symbolizer) + "\n" + thread_table(profile);
	return out + TreePrinter(tree, least).print();
}

std::string report_folded(const Profile &profile, Symbolizer &symbolizer)
{
	std::map<std::string, uint64_t> lines;
	std::string out;

	for (const Sample &s : profile.samples) {
		std::string line = thread_name(profile, s);
		std::replace(line.begin(), line.end(), ';', ':');
		for (const uint32_t f : functions_on(profile.stacks[s.stack], symbolizer)) {
			std::string name = symbolizer.functions()[f].name;
			std::replace(name.begin(), name.end(), ';', ':');
			line += ";" + name;
		}
		lines[line]++;
	}
	for (const auto &[line, count] : lines)
		out += line + " " + std::to_string(count) + "\n";
	return out;
}

std::string report_perf(const Profile &profile, Symbolizer &symbolizer)
{
	std::string out;

	for (const Sample &s : profile.samples) {
		out += format("%s %7u/%u %llu.%06llu: %10llu %s: \n", thread_name(profile, s).c_str(), s.pid,
			      s.tid, static_cast<unsigned long long>(s.time_ns / 1000000000),
			      static_cast<unsigned long long>(s.time_ns % 1000000000 / 1000),
			      static_cast<unsigned long long>(profile.header.period_ns),
			      profile.header.wall ? "wall-clock" : "cpu-clock");
		const std::vector<Frame> &stack = profile.stacks[s.stack];
		for (size_t i = 0; i < stack.size(); i++) {
			if (symbolizer.functions()[symbolizer.function_of(stack[i], i == 0)].hidden)
				continue;
			out += format("\t%16llx ", static_cast<unsigned long long>(stack[i].pc));
			out += symbolizer.describe(stack[i], i == 0) + " (" + symbolizer.path_of(stack[i]) + ")\n";
		}
		out += "\n";
	}
	return out;
}

} // namespace sframe::record
