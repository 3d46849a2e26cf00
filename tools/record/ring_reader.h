// SPDX-License-Identifier: MIT
//
// The reader's side of the sample ring (ring.h), for the recorder. Whatever a
// writer does, including dying at any instruction or scribbling over the whole
// file, a call returns after work in proportion to the ring's size.
#pragma once

#include <boost/interprocess/mapped_region.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>
#include "ring.h"

namespace sframe::record {

class RingReader {
public:
	using Clock = std::chrono::steady_clock;

	// How long a reserved record may take to become whole.
	static constexpr std::chrono::milliseconds PATIENCE{ 1000 };

	// Makes the file @path (which must not exist) with @slots slots, its
	// memory reserved. Returns 0 or -errno; nothing is left behind then.
	static int create(const std::string &path, uint32_t slots, std::unique_ptr<RingReader> *out);
	~RingReader();
	RingReader(const RingReader &) = delete;
	RingReader &operator=(const RingReader &) = delete;

	ring_header *header() const { return header_; }
	const std::string &path() const { return path_; }

	// The next whole record, checked (record_valid() of profile.h) and copied;
	// nullptr: none now. With @no_writers what is reserved is abandoned at once.
	const ring_record *next(Clock::time_point now, bool no_writers = false);

	// Makes writers stop, for good.
	void close();

	uint64_t abandoned() const { return abandoned_; }	// reserved, never committed
	uint64_t damaged() const { return damaged_; }		// committed, but not valid

private:
	RingReader(std::string path, boost::interprocess::mapped_region &&region, uint32_t slots);
	uint64_t bounded_head();
	bool give_up(uint64_t head, Clock::time_point now, bool no_writers);
	const ring_record *take(uint32_t slots);
	void advance(uint64_t slots);

	std::string path_;
	boost::interprocess::mapped_region region_;
	ring_header *header_;
	uint64_t *stamps_;
	const unsigned char *data_;
	uint32_t slots_;
	uint64_t tail_ = 0;
	uint64_t stuck_until_ = 0;	// slots below may be abandoned when the time has come
	Clock::time_point stuck_since_{};
	uint64_t abandoned_ = 0, damaged_ = 0;
	std::vector<uint64_t> copy_;
};

} // namespace sframe::record
