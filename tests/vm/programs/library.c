/* SPDX-License-Identifier: MIT */
/* The library between program and plugin: library_entry, library_1, library_2, plugin. */
#include "spin.h"

static __thread plugin_fn target;

static unsigned long into_plugin(unsigned long n)
{
	return target(n);
}

__attribute__((noinline, noclone)) static unsigned long last(unsigned long n)
{
	volatile unsigned long keep = into_plugin(n);
	return keep + 1;
}

CHAIN(library_2, last)
CHAIN(library_1, library_2)

unsigned long library_entry(unsigned long n, plugin_fn plugin)
{
	target = plugin;
	volatile unsigned long keep = library_1(n);
	return keep + 1;
}

unsigned long library_empty(unsigned long n)
{
	return n;
}
