// SPDX-License-Identifier: MIT
//
// A plugin that reports from inside of qsort()'s callback: libc is between its
// own frames.
#include <cstdlib>
#include "plugin.h"

namespace {

const plugin_host *host;
int comparisons;

int compare(const void *a, const void *b)
{
	const int left = *static_cast<const int *>(a), right = *static_cast<const int *>(b);

	if (++comparisons == 5)
		host->report("comparisons so far", comparisons);
	return (left > right) - (left < right);
}

} // namespace

extern "C" void plugin_run(const plugin_host *given)
{
	int values[] = { 7, 3, 9, 1, 8, 2 };

	host = given;
	qsort(values, sizeof(values) / sizeof(values[0]), sizeof(values[0]), compare);
	host->report("smallest", values[0]);
}
