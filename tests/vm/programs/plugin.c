/* SPDX-License-Identifier: MIT */
/*
 * A plugin: plugin_entry, plugin_1, plugin_2, plugin_leaf. PLUGIN_DEPTH makes
 * it recurse that often first, and PLUGIN_FRAME gives its functions frames of
 * another size, so that two plugins have different rules at one address.
 */
#include "spin.h"

#ifndef PLUGIN_FRAME
#define PLUGIN_FRAME 16
#endif

__attribute__((noinline, noclone)) static unsigned long plugin_leaf(unsigned long n)
{
	unsigned long x = n | 1;
	for (int i = 0; i < 20000; i++)
		x = x * 6364136223846793005UL + 1442695040888963407UL;
	return x;
}

__attribute__((noinline, noclone)) static unsigned long plugin_2(unsigned long n)
{
	volatile unsigned long local[PLUGIN_FRAME];
	local[n % PLUGIN_FRAME] = n;
	unsigned long result = plugin_leaf(n);
	return result + local[n % PLUGIN_FRAME];
}

CHAIN(plugin_1, plugin_2)

__attribute__((noinline, noclone)) static unsigned long recurse(unsigned long n, int depth)
{
	volatile unsigned long keep = depth > 0 ? recurse(n + 1, depth - 1) : plugin_1(n);
	return keep + 1;
}

#ifndef PLUGIN_DEPTH
#define PLUGIN_DEPTH 0
#endif

__attribute__((visibility("default"))) unsigned long plugin_entry(unsigned long n)
{
	volatile unsigned long keep = recurse(n, PLUGIN_DEPTH);
	return keep + 1;
}
