// SPDX-License-Identifier: MIT
//
// One of the libraries of unwind_chain.h: built once per HOP, with WORDS words
// of locals in its frames and no frame pointer.
#include "unwind_chain.h"

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

namespace {

// Several functions a library, so that the PCs differ along the chain.
template <int Variant> NOINLINE
uint64_t work(UnwindChain *chain, int depth, uint64_t seed)
{
	volatile uint64_t space[WORDS + Variant * 2];
	uint64_t sum = seed;

	for (int i = 0; i < WORDS; i += 8)
		space[i] = sum += seed >> (i & 31);
	if (depth <= 0)
		chain->leaf(chain->arg);
	else
		sum += chain->hop[depth / 2 % 4](chain, depth - 1, sum ^ space[0]);
	return sum + space[0];
}

} // namespace

uint64_t JOIN(unwind_hop_, HOP)(UnwindChain *chain, int depth, uint64_t seed)
{
	switch (depth / 8 % 4) {
	case 0:
		return work<0>(chain, depth - 1, seed) + 1;
	case 1:
		return work<1>(chain, depth - 1, seed) + 2;
	case 2:
		return work<2>(chain, depth - 1, seed) + 3;
	default:
		return work<3>(chain, depth - 1, seed) + 4;
	}
}
