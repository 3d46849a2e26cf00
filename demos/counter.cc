// SPDX-License-Identifier: MIT
//
// A plugin that reports from the bottom of a recursion with frames of varying
// size: alloca() makes the stack pointer useless without a table.
#include <alloca.h>
#include <cstring>
#include "plugin.h"

static long count_down(const plugin_host *host, int n)
{
	auto *room = static_cast<unsigned char *>(alloca(static_cast<size_t>(n) * 24 + 16));

	memset(room, n, static_cast<size_t>(n) + 1);
	if (n == 0)
		host->report("at the bottom", 0);
	else
		count_down(host, n - 1);
	return room[n];
}

extern "C" void plugin_run(const plugin_host *host)
{
	host->report("counted", count_down(host, 6));
}
