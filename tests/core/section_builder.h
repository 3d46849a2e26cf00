// SPDX-License-Identifier: MIT
//
// Hand-made sections, byte by byte from the format's description, of either
// version and byte order; right or wrong as the test wants them.
//
//	SectionBuilder b;
//	b.function(0x1000, 0x20).row(0, SP, { 8 }).row(1, SP, { 16, -16 });
//	std::string bytes = b.bytes();
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace core_test {

enum Base { FP = 0, SP = 1 };

class FunctionBuilder {
public:
	FunctionBuilder(uint64_t start, uint32_t size) : start(start), size(size) {}

	// Words are written in as few bytes as hold them all.
	FunctionBuilder &row(uint32_t at, Base base, std::vector<int64_t> words, bool mangled = false)
	{
		rows.push_back({ at, base, std::move(words), mangled });
		return *this;
	}
	// A row of a flexible function: control words are unsigned.
	FunctionBuilder &flex(uint32_t at, std::vector<int64_t> words)
	{
		flexible = true;
		return row(at, SP, std::move(words));
	}
	FunctionBuilder &repeating(uint8_t every)
	{
		mask = true;
		rep_size = every;
		return *this;
	}
	FunctionBuilder &signal_frame()
	{
		signal = true;
		return *this;
	}
	FunctionBuilder &addresses(unsigned int type)
	{
		row_type = type;
		return *this;
	}

	struct Row {
		uint32_t at;
		Base base;
		std::vector<int64_t> words;
		bool mangled;
	};
	uint64_t start;
	uint32_t size;
	unsigned int row_type = 0;	// ADDR1, ADDR2, ADDR4
	bool mask = false, signal = false, flexible = false;
	uint8_t rep_size = 0;
	uint8_t extra_info = 0, extra_info2 = 0;	// bits that nobody should set
	std::vector<Row> rows;
};

class SectionBuilder {
public:
	uint8_t version = 3;
	uint8_t flags = 1;	// FDE_SORTED
	uint8_t abi = 3;	// AMD64
	int8_t fixed_fp = 0, fixed_ra = -8;
	bool big = false;
	uint32_t spare_functions = 0;	// room for more, as growable sections have
	uint32_t spare_rows = 0;	// bytes
	std::string auxiliary;

	FunctionBuilder &function(uint64_t start, uint32_t size)
	{
		return functions_.emplace_back(start, size);
	}

	std::string bytes() const
	{
		std::string index, rows;
		uint32_t num_rows = 0;

		for (const FunctionBuilder &f : functions_) {
			entry(index, rows, f);
			num_rows += static_cast<uint32_t>(f.rows.size());
		}
		const size_t count = functions_.size();
		index.resize(index.size() + spare_functions * (version == 3 ? 16 : 20));
		rows.resize(rows.size() + spare_rows);
		std::string out;
		put(out, 0xdee2, 2);
		for (int byte : { +version, +flags, +abi, +fixed_fp, +fixed_ra,
				  static_cast<int>(auxiliary.size()) })
			put(out, static_cast<uint64_t>(byte), 1);
		put(out, count, 4);
		put(out, num_rows, 4);
		put(out, rows.size(), 4);
		put(out, 0, 4);
		put(out, index.size(), 4);
		return out + auxiliary + index + rows;
	}

	void put(std::string &to, uint64_t value, unsigned int width) const
	{
		for (unsigned int i = 0; i < width; i++)
			to += static_cast<char>(value >> 8 * (big ? width - 1 - i : i));
	}

private:
	static unsigned int word_size(const FunctionBuilder::Row &row, bool flexible)
	{
		unsigned int size = 0;	// log2

		for (size_t i = 0; i < row.words.size(); i++) {
			const int64_t w = row.words[i];
			const int64_t least = flexible && i % 2 == 0 ? 0 : -128;
			const int64_t most = flexible && i % 2 == 0 ? 255 : 127;
			if (w < least * 256 || w > most * 256)
				size = 2;
			else if ((w < least || w > most) && size < 1)
				size = 1;
		}
		return size;
	}

	void put_rows(std::string &to, const FunctionBuilder &f) const
	{
		for (const FunctionBuilder::Row &row : f.rows) {
			const unsigned int size = word_size(row, f.flexible);

			put(to, row.at, 1u << f.row_type);
			put(to, static_cast<uint64_t>(row.base) | row.words.size() << 1 | size << 5 |
				(row.mangled ? 0x80u : 0u), 1);
			for (const int64_t w : row.words)
				put(to, static_cast<uint64_t>(w), 1u << size);
		}
	}

	// Offsets count from the section's start, which lies at 0, or from the field.
	void entry(std::string &index, std::string &rows, const FunctionBuilder &f) const
	{
		const uint64_t field = 28 + auxiliary.size() + index.size();
		const uint64_t start = f.start - (flags & 4 ? field : 0);
		const uint8_t info = static_cast<uint8_t>(f.row_type | (f.mask ? 0x10 : 0) |
							  (f.signal ? 0x80 : 0) | f.extra_info);

		put(index, start, version == 3 ? 8 : 4);
		put(index, f.size, 4);
		put(index, rows.size(), 4);
		if (version == 3) {
			put(rows, f.rows.size(), 2);
			put(rows, info, 1);
			put(rows, (f.flexible ? 1u : 0u) | f.extra_info2, 1);
			put(rows, f.rep_size, 1);
		} else {
			put(index, f.rows.size(), 4);
			put(index, info, 1);
			put(index, f.rep_size, 1);
			put(index, 0, 2);
		}
		put_rows(rows, f);
	}

	std::deque<FunctionBuilder> functions_;
};

} // namespace core_test
