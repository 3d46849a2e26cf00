// SPDX-License-Identifier: MIT
//
// Runs a program with the sampler in it and writes what it sends into a
// profile file.
#pragma once

#include <cstdint>
#include <string>

namespace sframe::record {

struct RecordOptions {
	uint64_t frequency = 99;	// Hz
	std::string file = "sframe.data";
	bool wall = false;
	bool follow = false;
	int signo = 0;			// 0: the sampler's own choice
	uint32_t slots = 32768;		// of the ring: 8 MiB
	char **argv = nullptr;		// the program and its arguments
};

// Returns the program's exit status; does not return if a signal ended it (the
// same signal ends the caller then).
int record_program(const RecordOptions &options);

} // namespace sframe::record
