// SPDX-License-Identifier: MIT
//
// Building short strings (paths, names, debug lines) in a caller's buffer,
// without libc. What does not fit sets overflow; the text stays terminated.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sframe {

class Text {
public:
	Text(char *buffer, size_t size) : start_(buffer), at_(buffer), end_(buffer + size - 1)
	{
		*at_ = 0;
	}

	Text &str(const char *s)
	{
		while (*s)
			put(*s++);
		return *this;
	}

	Text &dec(uint64_t value)
	{
		char digits[20];
		int n = 0;

		do
			digits[n++] = static_cast<char>('0' + value % 10);
		while (value /= 10);
		while (n)
			put(digits[--n]);
		return *this;
	}

	// A signed number, as -errno values are.
	Text &num(long value)
	{
		if (value < 0)
			put('-');
		return dec(value < 0 ? 0 - static_cast<uint64_t>(value)
				     : static_cast<uint64_t>(value));
	}

	Text &hex(uint64_t value, int width = 1)
	{
		for (int shift = 60; shift >= 0; shift -= 4)
			if (value >> shift || shift < width * 4)
				put("0123456789abcdef"[value >> shift & 15]);
		return *this;
	}

	Text &hex_bytes(const unsigned char *bytes, size_t n)
	{
		for (size_t i = 0; i < n; i++)
			hex(bytes[i], 2);
		return *this;
	}

	size_t size() const { return static_cast<size_t>(at_ - start_); }
	bool overflow() const { return overflow_; }
	const char *c_str() const { return start_; }

private:
	void put(char c)
	{
		if (at_ == end_) {
			overflow_ = true;
			return;
		}
		*at_++ = c;
		*at_ = 0;
	}

	char *start_, *at_, *end_;
	bool overflow_ = false;
};

} // namespace sframe
