// SPDX-License-Identifier: MIT
#include "padding.h"

namespace sframe {

// Length of a multi-byte no-operation's ModRM, SIB and displacement.
static uint64_t modrm_size(const unsigned char *p, uint64_t left)
{
	if (!left)
		return 0;
	const unsigned int mod = p[0] >> 6, rm = p[0] & 7;
	uint64_t size = 1;

	if (mod == 3)
		return 0;
	if (rm == 4) {
		if (left < 2)
			return 0;
		if (mod == 0 && (p[1] & 7) == 5)
			size += 4;
		size++;
	} else if (mod == 0 && rm == 5) {
		size += 4;
	}
	return size + (mod == 1 ? 1 : mod == 2 ? 4 : 0);
}

// Length of the no-operation at p, or 0: nop, data16 nop, nopw/nopl with
// prefixes (66, cs, ds), int3.
static uint64_t nop_size(const unsigned char *p, uint64_t left)
{
	uint64_t n = 0;

	if (p[0] == 0xcc)
		return 1;
	while (n < left && (p[n] == 0x66 || p[n] == 0x2e || p[n] == 0x3e))
		n++;
	if (n >= left || n > 14)
		return 0;
	if (p[n] == 0x90)
		return n + 1;
	if (left - n < 3 || p[n] != 0x0f || p[n + 1] != 0x1f)
		return 0;
	const uint64_t operand = modrm_size(p + n + 2, left - n - 2);

	return operand && n + 2 + operand <= left ? n + 2 + operand : 0;
}

bool is_padding(const unsigned char *bytes, uint64_t size)
{
	uint64_t i = 0, n;

	// Zeros fill a gap to its end: alone they would be an instruction.
	while (i < size && bytes[i] != 0 && (n = nop_size(bytes + i, size - i)))
		i += n;
	while (i < size && bytes[i] == 0)
		i++;
	return i == size;
}

} // namespace sframe
