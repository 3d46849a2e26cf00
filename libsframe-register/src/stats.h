// SPDX-License-Identifier: MIT
//
// Counters of sframe_get_stats(): one set per process, kept beside the index.
// Parts that do not know the index count through registry_count().
#pragma once

#include <cstdint>
#include "registry_state.h"

namespace sframe {

inline void stat_add(Control *c, Stat stat, uint64_t n = 1)
{
	__atomic_fetch_add(&c->stats[(unsigned int)stat], n, __ATOMIC_RELAXED);
}

} // namespace sframe
