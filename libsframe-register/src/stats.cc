// SPDX-License-Identifier: MIT
#include "export.h"
#include "registry.h"
#include "stats.h"

#include <cerrno>

using namespace sframe;

namespace sframe {

void registry_count(uint64_t sframe_stats::*which, uint64_t n)
{
	const sframe_stats any = {};
	const auto stat = (Stat)(&(any.*which) - &any.registered);

	if (Control *c = registry_control(true)) {
		WriterLock lock(c);

		stat_add(c, stat, n);
		export_stats(c);
	}
}

} // namespace sframe

extern "C" __attribute__((visibility("default"))) int sframe_get_stats(sframe_stats *stats)
{
	const size_t size = stats->size;

	if (size < sizeof(*stats))
		return -EINVAL;
	__builtin_memset(stats, 0, size);
	stats->size = size;
	const Control *c = registry_control(false);
	uint64_t *out = &stats->registered;
	for (unsigned int i = 0; c && i < stat_count; i++)
		out[i] = relaxed(&c->stats[i]);
	return 0;
}
