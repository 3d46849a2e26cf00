// SPDX-License-Identifier: MIT
//
// A cursor over untrusted little-endian bytes. A read past the end gives zero
// and sets bad(): callers check once after a group of reads.
#pragma once

#include <cstdint>
#include <cstring>

namespace sframe {

class Reader {
public:
	Reader() = default;
	Reader(const unsigned char *p, uint64_t size) : p_(p), end_(p + size) {}

	const unsigned char *at() const { return p_; }
	uint64_t left() const { return static_cast<uint64_t>(end_ - p_); }
	bool bad() const { return bad_; }
	void fail()
	{
		bad_ = true;
		p_ = end_;
	}

	uint8_t u8() { return p_ < end_ ? *p_++ : (fail(), 0); }
	uint16_t u16() { return fixed<uint16_t>(); }
	uint32_t u32() { return fixed<uint32_t>(); }
	uint64_t u64() { return fixed<uint64_t>(); }

	// LEB128 of values that fit 64 bits; longer ones are bad.
	uint64_t uleb()
	{
		uint64_t value = 0;

		for (unsigned int shift = 0; shift < 64; shift += 7) {
			const uint8_t byte = u8();

			if (shift == 63 && byte > 1)
				break;
			value |= uint64_t(byte & 0x7f) << shift;
			if (!(byte & 0x80))
				return value;
		}
		fail();
		return 0;
	}

	int64_t sleb()
	{
		uint64_t value = 0;

		for (unsigned int shift = 0; shift < 64; shift += 7) {
			const uint8_t byte = u8();

			if (shift == 63 && byte != 0 && byte != 0x7f)
				break;
			value |= uint64_t(byte & 0x7f) << shift;
			if (byte & 0x80)
				continue;
			if (shift < 57 && byte & 0x40)
				value |= ~uint64_t(0) << (shift + 7);
			return static_cast<int64_t>(value);
		}
		fail();
		return 0;
	}

	const unsigned char *skip(uint64_t n)
	{
		const unsigned char *start = p_;

		if (n > left()) {
			fail();
			return nullptr;
		}
		p_ += n;
		return start;
	}

	// A string up to its NUL; nullptr without one.
	const char *string()
	{
		const char *start = reinterpret_cast<const char *>(p_);

		while (p_ < end_)
			if (!*p_++)
				return start;
		fail();
		return nullptr;
	}

private:
	template <typename T> T fixed()
	{
		T value = 0;

		if (left() < sizeof(T)) {
			fail();
			return 0;
		}
		memcpy(&value, p_, sizeof(T));
		p_ += sizeof(T);
		return value;
	}

	const unsigned char *p_ = nullptr;
	const unsigned char *end_ = nullptr;
	bool bad_ = false;
};

} // namespace sframe
