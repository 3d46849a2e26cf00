// SPDX-License-Identifier: MIT
#include "padding.h"

namespace {

// Bytes of a ModRM operand in memory (ModRM, SIB, displacement); 0 if it is a register.
size_t memory_operand(Bytes at)
{
	if (at.empty() || at[0] >> 6 == 3)
		return 0;
	const unsigned mod = at[0] >> 6, rm = at[0] & 7;
	size_t size = 1;

	if (rm == 4) {
		if (at.size() < 2)
			return 0;
		size++;
		if (mod == 0 && (at[1] & 7) == 5)
			size += 4;
	} else if (rm == 5 && mod == 0) {
		size += 4;
	}
	return size + (mod == 1 ? 1 : mod == 2 ? 4 : 0);
}

// lea disp(%rsi,%riz),%rsi and lea disp(%rdi,...),%rdi with disp 0 change nothing.
bool is_lea_nop(Bytes at, size_t size)
{
	const unsigned reg = at[1] >> 3 & 7, rm = at[1] & 7;
	const unsigned base = rm == 4 && at.size() > 2 ? at[2] & 7 : rm;
	const unsigned mod = at[1] >> 6;

	if ((reg != 6 && reg != 7) || base != reg || (rm == 4 && (at[2] >> 3 & 7) != 4))
		return false;
	for (size_t i = size - (mod == 1 ? 1 : mod == 2 ? 4 : 0); i < size; i++)
		if (at[i])
			return false;
	return true;
}

// Length of one filler instruction at the beginning of @bytes, or 0.
size_t filler(Bytes bytes)
{
	size_t at = 0;

	if (bytes[0] == 0x00 || bytes[0] == 0xcc)
		return 1;
	while (at < bytes.size() && at < 14 && (bytes[at] == 0x66 || bytes[at] == 0x2e ||
						 (bytes[at] & 0xf8) == 0x48))
		at++;
	const Bytes code = bytes.subspan(at);
	if (!code.empty() && code[0] == 0x90)
		return at + 1;
	if (code.size() >= 3 && code[0] == 0x0f && code[1] == 0x1f) {
		const size_t operand = memory_operand(code.subspan(2));

		return operand && operand + 2 <= code.size() ? at + 2 + operand : 0;
	}
	if (code.size() >= 2 && code[0] == 0x8d) {
		const size_t operand = memory_operand(code.subspan(1));

		return operand && operand + 1 <= code.size() && is_lea_nop(code, operand + 1) ?
			at + 1 + operand : 0;
	}
	return 0;
}

} // namespace

bool is_padding(Bytes bytes)
{
	while (!bytes.empty()) {
		const size_t size = filler(bytes);

		if (!size)
			return false;
		bytes = bytes.subspan(size);
	}
	return true;
}
