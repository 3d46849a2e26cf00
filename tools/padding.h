// SPDX-License-Identifier: MIT
//
// Alignment padding in x86-64 text.
#pragma once

#include "elf_file.h"

// True if @bytes are nothing but what assemblers and linkers fill gaps with:
// nop in all its lengths, int3, zero bytes, the old lea 0(%rsi),%rsi forms.
// Instructions must end where the bytes end.
bool is_padding(Bytes bytes);
