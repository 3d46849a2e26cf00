// SPDX-License-Identifier: MIT
#include "tree.h"

#include <algorithm>
#include <set>

namespace sframe::record {

std::vector<uint32_t> CallTree::children_of(const Node &node) const
{
	std::vector<uint32_t> out;

	for (const auto &[function, child] : node.children)
		out.push_back(child);
	std::stable_sort(out.begin(), out.end(),
			 [&](uint32_t a, uint32_t b) { return nodes[a].total > nodes[b].total; });
	return out;
}

std::vector<uint32_t> functions_on(const std::vector<Frame> &stack, Symbolizer &symbolizer)
{
	std::vector<uint32_t> out;

	for (size_t i = stack.size(); i--;) {
		const uint32_t f = symbolizer.function_of(stack[i], i == 0);
		if (!symbolizer.functions()[f].hidden)
			out.push_back(f);
	}
	return out;
}

std::string thread_name(const Profile &profile, const Sample &sample)
{
	for (const uint32_t tid : { sample.tid, sample.pid }) {
		const auto it = profile.thread_names.find({ sample.pid, tid });
		if (it != profile.thread_names.end() && !it->second.empty())
			return it->second;
	}
	return std::string("[").append(std::to_string(sample.tid)).append("]");
}

std::vector<FunctionCost> function_costs(const Profile &profile, Symbolizer &symbolizer)
{
	std::vector<uint64_t> of_stack(profile.stacks.size());
	std::vector<FunctionCost> costs;

	for (const Sample &s : profile.samples)
		of_stack[s.stack]++;
	for (size_t i = 0; i < of_stack.size(); i++) {
		const std::vector<uint32_t> functions = functions_on(profile.stacks[i], symbolizer);
		costs.resize(symbolizer.functions().size());
		if (!functions.empty())
			costs[functions.back()].self += of_stack[i];
		// Recursion counts once.
		for (const uint32_t f : std::set<uint32_t>(functions.begin(), functions.end()))
			costs[f].total += of_stack[i];
	}
	costs.resize(symbolizer.functions().size());
	return costs;
}

namespace {

uint32_t child_of(CallTree &tree, uint32_t parent, uint32_t function)
{
	const uint32_t fresh = static_cast<uint32_t>(tree.nodes.size());
	const auto [it, is_new] = tree.nodes[parent].children.try_emplace(function, fresh);
	const uint32_t child = it->second;

	if (is_new) {
		tree.nodes.emplace_back();
		tree.nodes.back().function = function;
	}
	return child;
}

} // namespace

CallTree make_tree(const Profile &profile, Symbolizer &symbolizer)
{
	CallTree tree;
	std::map<std::pair<std::string, uint32_t>, uint64_t> stacks;	// by thread name and stack

	for (const Sample &s : profile.samples)
		stacks[{ thread_name(profile, s), s.stack }]++;
	for (const std::vector<Frame> &stack : profile.stacks)
		functions_on(stack, symbolizer);	// so that all functions have their numbers
	tree.functions = symbolizer.functions();
	tree.first_thread = static_cast<uint32_t>(tree.functions.size());
	tree.nodes.resize(1);

	std::map<std::string, uint32_t> threads;
	for (const auto &[key, count] : stacks) {
		const auto [it, fresh] =
			threads.try_emplace(key.first, static_cast<uint32_t>(tree.functions.size()));
		if (fresh)
			tree.functions.push_back({ key.first, "", Origin::NATIVE, false });
		uint32_t at = child_of(tree, 0, it->second);
		tree.nodes[0].total += count;
		tree.nodes[at].total += count;
		for (const uint32_t f : functions_on(profile.stacks[key.second], symbolizer)) {
			at = child_of(tree, at, f);
			tree.nodes[at].total += count;
		}
		tree.nodes[at].self += count;
	}
	return tree;
}

} // namespace sframe::record
