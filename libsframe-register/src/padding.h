// SPDX-License-Identifier: MIT
//
// Recognizing what compilers and linkers put between functions to align them.
#pragma once

#include <cstdint>

namespace sframe {

// True if all bytes are no-operation instructions, int3, or zeros.
bool is_padding(const unsigned char *bytes, uint64_t size);

} // namespace sframe
