/* SPDX-License-Identifier: MIT */
/*
 * What the programs under test share: a place to burn time that the compiler
 * keeps, and calls that stay calls.
 */
#ifndef SPIN_H
#define SPIN_H

/* Each function of a chain leaves work for after the call: no tail calls. */
#define CHAIN(name, next)                                                                          \
	__attribute__((noinline, noclone)) unsigned long name(unsigned long n)                     \
	{                                                                                          \
		volatile unsigned long local[4] = { n, n + 1, n + 2, n + 3 };                      \
		unsigned long result = next(n + local[1]);                                         \
		return result + local[n & 3];                                                      \
	}

typedef unsigned long (*plugin_fn)(unsigned long n);

unsigned long library_entry(unsigned long n, plugin_fn plugin);

#endif
