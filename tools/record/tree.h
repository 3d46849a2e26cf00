// SPDX-License-Identifier: MIT
//
// The call tree of a profile: stacks merged from the outermost frame on, below
// a node for each thread name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>
#include "profile.h"
#include "symbolize.h"

namespace sframe::record {

struct CallTree {
	struct Node {
		uint32_t function;	// index in functions
		uint64_t total = 0;	// samples in which this call was on the stack
		uint64_t self = 0;	// of these: it was the innermost
		std::map<uint32_t, uint32_t> children;	// by function: index in nodes
	};

	std::vector<Node> nodes;	// nodes[0]: everything
	std::vector<Function> functions;
	uint32_t first_thread;		// functions from here on are thread names

	// Children in order of falling total.
	std::vector<uint32_t> children_of(const Node &node) const;
};

// Samples per function: itself innermost, and anywhere on the stack.
struct FunctionCost {
	uint64_t self = 0, total = 0;
};

// One for each function of the symbolizer.
std::vector<FunctionCost> function_costs(const Profile &profile, Symbolizer &symbolizer);

// A stack as functions, outermost first, without the sampler's own.
std::vector<uint32_t> functions_on(const std::vector<Frame> &stack, Symbolizer &symbolizer);

// The thread's name, or its process's, or "[tid]".
std::string thread_name(const Profile &profile, const Sample &sample);

CallTree make_tree(const Profile &profile, Symbolizer &symbolizer);

} // namespace sframe::record
