// SPDX-License-Identifier: MIT
//
// Reading sections for tools: the core behind the C ABI of <sframe/decode.h>.
#define SFRAME_CORE_FOREIGN 1
#include "core.h"
#include <sframe/decode.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT const char *sframe_decode_status_name(int status) { return sframe_status_name(status); }
