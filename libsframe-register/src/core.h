// SPDX-License-Identifier: MIT
//
// The core over plain memory of this process. Callers that may meet unreadable
// memory (unwinder, peers) include sframe_core.h with accessors of their own,
// in a translation unit of their own.
#pragma once

#include <cstring>

#ifndef SFRAME_CORE_READ
#define SFRAME_CORE_READ(io, dst, addr, len) (__builtin_memcpy(dst, (const void *)(addr), len), 0)
#define SFRAME_CORE_REG(io, regno, value) (-1)
#endif
#include "../core/sframe_core.h"
