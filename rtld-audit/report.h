// SPDX-License-Identifier: MIT
//
// What a process tells the `sframectl run` that started it: a file of fixed
// size, named by SFRAME_REPORT and mapped by both, with a slot for each
// process. Whatever the process dies of, the last state stays.
//
// A writer fills the state that is not current and then makes it current. The
// reader looks when the writers are gone, and believes nothing it reads.
#pragma once

#include <cstdint>
#include <sframe/register.h>

namespace sframe {

inline constexpr char kReportVariable[] = "SFRAME_REPORT";
inline constexpr uint32_t kReportMagic = 0x31524653;	// "SFR1"
inline constexpr uint32_t kReportSlots = 1024;

struct ReportState {
	sframe_stats stats;
	uint64_t nanoseconds;	// spent registering
};

struct ReportSlot {
	uint32_t pid;		// 0: unused
	uint32_t current;	// state[current & 1] is whole
	ReportState state[2];
};

struct Report {
	uint32_t magic;
	uint32_t size;		// sizeof(Report)
	uint32_t used;		// slots taken; may exceed kReportSlots
	uint32_t reserved;
	ReportSlot slot[kReportSlots];
};

// The writer's side: one per process.
class Reporter {
public:
	// @path: value of SFRAME_REPORT, or nullptr: nothing is reported.
	void open(const char *path);
	// @nanoseconds: spent since the last call.
	void update(uint64_t nanoseconds);

private:
	ReportSlot *slot_ = nullptr;
	uint64_t nanoseconds_ = 0;
};

uint64_t monotonic_nanoseconds();

} // namespace sframe
