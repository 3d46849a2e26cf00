// SPDX-License-Identifier: MIT
//
// The profile file: what `sframectl record` writes and `report` reads.
//
// A header (struct profile_header), then records, appended as they come. Each
// begins with a ring_record (ring.h) and is padded to eight bytes; its size
// does not count the padding. All numbers are little endian. A file ends with
// PROFILE_END; without it the recorder was killed: what is there is valid, and
// a record that is not whole is left out. Nothing is ever rewritten.
//
//	RING_SAMPLE, RING_OBJECT, RING_IMAGE, RING_STATS	as in the ring
//	PROFILE_COMMAND		the command line, each argument ending in NUL
//	PROFILE_THREAD		a thread's name (again if it changed)
//	PROFILE_COUNTERS	what was lost so far
//	PROFILE_END		counters, and the program's wait status
//
// A sample's PCs are found in the object of their range id and the sample's
// image: ids are never used twice in an image, so a library loaded where
// another one was is told apart. OBJECT may follow its first sample.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>
#include "ring.h"

namespace sframe::record {

constexpr uint64_t PROFILE_MAGIC = UINT64_C(0x31656c69666f7270);	// "profile1"
constexpr uint32_t PROFILE_VERSION = 1;

struct profile_header {
	uint64_t magic;
	uint32_t version;
	uint32_t header_size;	// where records begin; a later version may append fields
	uint64_t period_ns;
	uint32_t wall;		// 1: wall time, 0: CPU time of each thread
	uint32_t follow;
	uint64_t start_ns;	// CLOCK_REALTIME
	uint64_t start_monotonic_ns;
};

enum profile_kind {
	PROFILE_COMMAND = 16,
	PROFILE_THREAD,
	PROFILE_COUNTERS,
	PROFILE_END,
};

struct profile_thread {
	ring_record record;
	uint32_t pid, tid;
	char name[16];
};

struct profile_counters {
	ring_record record;
	uint64_t lost;			// samples: ring full, given up, damaged
	uint64_t overruns;		// timer periods without a sample of their own
	uint64_t unsampled_threads;
	uint64_t threads;		// threads that had a timer
};

struct profile_end {
	profile_counters counters;
	uint64_t end_monotonic_ns;
	int32_t wait_status;
	uint32_t reserved;
};

// Are these bytes what was written?
bool record_intact(const ring_record *record, size_t size);
// And is it a whole record of a known kind, with all its parts inside @size bytes?
bool record_valid(const ring_record *record, size_t size);

// ---- writing ------------------------------------------------------------------

class ProfileWriter {
public:
	~ProfileWriter();
	// 0 or -errno. Replaces the file.
	int open(const std::string &path, const profile_header &header);
	// Appends a record, size and kind set by the caller; fills in the check.
	void append(ring_record *record);
	void append_command(char *const *argv);
	// Gives what was appended to the kernel. 0 or the first error met, as -errno.
	int flush();

private:
	int fd_ = -1;
	int error_ = 0;
	std::string buffer_;
};

// ---- reading ------------------------------------------------------------------

struct Object {
	uint32_t image;
	uint64_t id;
	uint64_t load_bias, text_start, text_end;
	uint32_t source;	// enum sframe_source
	uint32_t version;
	std::string build_id;	// bytes
	std::string path;
};

struct Image {
	uint32_t pid = 0;
	uint32_t parent = 0;
	uint64_t time_ns = 0;
	std::string path;
	uint64_t native = 0, synthesized = 0, refused = 0;
};

constexpr uint32_t NO_OBJECT = UINT32_MAX;

struct Frame {
	uint64_t pc;
	uint32_t object;	// index in Profile::objects, or NO_OBJECT
	bool operator==(const Frame &) const = default;
	bool operator<(const Frame &o) const { return pc != o.pc ? pc < o.pc : object < o.object; }
};

struct Sample {
	uint32_t image, pid, tid;
	uint64_t time_ns;
	uint32_t overrun;
	uint16_t stop;		// enum sframe_stop
	uint16_t frames_sframe, frames_fp, frames_signal;
	uint64_t stop_pc;
	uint32_t stack;		// index in Profile::stacks

	bool complete() const;	// the outermost frame, by SFrame alone
};

struct Profile {
	profile_header header{};
	std::vector<std::string> command;
	std::vector<Object> objects;
	std::map<uint32_t, Image> images;
	std::vector<std::vector<Frame>> stacks;		// innermost first
	std::vector<Sample> samples;
	std::map<std::pair<uint32_t, uint32_t>, std::string> thread_names;	// by pid, tid
	uint64_t lost = 0, overruns = 0, unsampled_threads = 0, timers = 0;
	bool ended = false;		// PROFILE_END was there
	bool truncated = false;		// bytes behind the last whole record
	uint64_t end_monotonic_ns = 0;
	int wait_status = 0;

	std::set<std::pair<uint32_t, uint32_t>> threads() const;	// with samples, by pid and tid
};

// Reads a profile from memory. False: it is none, @why says it in words.
bool read_profile(const void *bytes, size_t size, Profile *out, std::string *why);
bool read_profile_file(const std::string &path, Profile *out, std::string *why);

} // namespace sframe::record
