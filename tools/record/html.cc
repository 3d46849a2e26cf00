// SPDX-License-Identifier: MIT
//
// The flame graph: flame.html with the profile's tree in it.
#include "report.h"

#include <algorithm>
#include "flame_html.h"	// flame_html: the page, made from flame.html by the build

namespace sframe::record {

namespace {

constexpr size_t HOTTEST = 50;
// A frame narrower than this share is not seen at any sensible zoom.
constexpr uint64_t FINEST = 50'000;

// Length of the UTF-8 sequence at @at, 0 if it is none.
size_t utf8_length(const std::string &s, size_t at)
{
	const unsigned char c = s[at];
	const size_t n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 :
			 c >= 0xf0 && c < 0xf5 ? 4 : 0;

	if (n > s.size() - at)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((s[at + i] & 0xc0) != 0x80)
			return 0;
	return n;
}

// A JSON string that may stand in a script element: no "<", no bare controls,
// and names need not be UTF-8 on the way in.
void quote(std::string &out, const std::string &s)
{
	constexpr char HEX[] = "0123456789abcdef";

	out += '"';
	for (size_t i = 0; i < s.size();) {
		const unsigned char c = s[i];
		const size_t n = utf8_length(s, i);
		if (c == '"' || c == '\\') {
			out += '\\';
			out += s[i];
		} else if (c < 0x20 || c == '<' || c == '>' || c == '&') {
			out += "\\u00";
			out += HEX[c >> 4];
			out += HEX[c & 15];
		} else if (n) {
			out.append(s, i, n);
		} else {
			out += "\\ufffd";
		}
		i += n ? n : 1;
	}
	out += '"';
}

void put_function(std::string &out, const Function &f, const char *origin)
{
	out += "{\"name\":";
	quote(out, f.name);
	out += ",\"object\":";
	quote(out, f.object);
	out += ",\"origin\":\"";
	out += origin;
	out += "\"}";
}

void put_numbers(std::string &out, std::initializer_list<uint64_t> numbers)
{
	const char *comma = "";

	for (const uint64_t n : numbers) {
		out += comma;
		out += std::to_string(n);
		comma = ",";
	}
}

void put_node(std::string &out, const CallTree &tree, uint32_t number, uint32_t function)
{
	const CallTree::Node &node = tree.nodes[number];
	const char *comma = "";

	out += '[';
	put_numbers(out, { function, node.total, node.self });
	out += ",[";
	for (const uint32_t child : tree.children_of(node)) {
		if (tree.nodes[child].total * FINEST < tree.nodes[0].total)
			break;
		out += comma;
		put_node(out, tree, child, tree.nodes[child].function);
		comma = ",";
	}
	out += "]]";
}

void put_hottest(std::string &out, const std::vector<FunctionCost> &costs)
{
	std::vector<uint32_t> order;
	const char *comma = "";

	for (uint32_t i = 0; i < costs.size(); i++)
		if (costs[i].self)
			order.push_back(i);
	std::stable_sort(order.begin(), order.end(),
			 [&](uint32_t a, uint32_t b) { return costs[a].self > costs[b].self; });
	for (size_t i = 0; i < order.size() && i < HOTTEST; i++) {
		out += comma;
		out += '[';
		put_numbers(out, { order[i], costs[order[i]].self, costs[order[i]].total });
		out += ']';
		comma = ",";
	}
}

std::string page_data(const Profile &profile, Symbolizer &symbolizer)
{
	const CallTree tree = make_tree(profile, symbolizer);
	std::vector<std::string> facts = describe_profile(profile);
	std::string out = "{\"command\":";
	const char *comma = "";

	facts.insert(facts.end(), symbolizer.complaints().begin(), symbolizer.complaints().end());
	quote(out, command_line(profile));
	out += ",\"facts\":[";
	for (const std::string &fact : facts) {
		out += comma;
		quote(out, fact);
		comma = ",";
	}
	out += "],\"functions\":[";
	for (size_t i = 0; i < tree.functions.size(); i++) {
		const Function &f = tree.functions[i];
		put_function(out, f, i < tree.first_thread ? origin_name(f.origin) : "thread");
		out += ',';
	}
	put_function(out, { "all", "", Origin::NATIVE, false }, "thread");
	out += "],\"hottest\":[";
	put_hottest(out, function_costs(profile, symbolizer));
	out += "],\"tree\":";
	put_node(out, tree, 0, static_cast<uint32_t>(tree.functions.size()));
	return out + "}";
}

} // namespace

std::string report_html(const Profile &profile, Symbolizer &symbolizer)
{
	const std::string page(reinterpret_cast<const char *>(flame_html), sizeof(flame_html));
	const std::string mark = "@PROFILE@";
	const size_t at = page.find(mark);

	return page.substr(0, at) + page_data(profile, symbolizer) + page.substr(at + mark.size());
}

} // namespace sframe::record
