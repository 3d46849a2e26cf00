// SPDX-License-Identifier: MIT
//
// A chain of frames across several objects: each hop is a function of another
// library, called by pointer, with a frame of its own size.
#pragma once

#include <cstdint>

struct UnwindChain {
	uint64_t (*hop[4])(UnwindChain *chain, int depth, uint64_t seed);
	void (*leaf)(void *arg);
	void *arg;
};

extern "C" {
uint64_t unwind_hop_0(UnwindChain *chain, int depth, uint64_t seed);
uint64_t unwind_hop_1(UnwindChain *chain, int depth, uint64_t seed);
uint64_t unwind_hop_2(UnwindChain *chain, int depth, uint64_t seed);
uint64_t unwind_hop_3(UnwindChain *chain, int depth, uint64_t seed);
}
