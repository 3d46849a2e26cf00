// SPDX-License-Identifier: MIT
//
// What /proc and the kernel say about a process, by plain system calls and with
// small buffers: the library asks in namespaces without a libc and on signal
// stacks.
#pragma once

#include <cstdint>

namespace sframe {

// One line of /proc/PID/maps.
struct Mapping {
	uint64_t start, end, offset, inode;
	uint32_t major, minor;
	bool readable, executable, shared;
	const char *path;	// as the kernel prints it, cut at the reader's buffer
};

class ProcessMaps {
public:
	// "/proc/<pid>/maps" or, for 0, "/proc/self/maps".
	explicit ProcessMaps(int pid);
	~ProcessMaps();
	ProcessMaps(const ProcessMaps &) = delete;
	ProcessMaps &operator=(const ProcessMaps &) = delete;

	int error() const { return fd < 0 ? fd : 0; }
	// The next line; valid until the next call. False at the end, or without /proc.
	bool next(Mapping *mapping);

private:
	int get();
	uint64_t hex();

	int fd;
	int have = 0, pos = 0;
	char buffer[1024];
	char line[512];
};

// Is all of [start, end) executable? 1, 0, or -errno where that cannot be known.
int maps_executable(uint64_t start, uint64_t end);

// May this process write a file up to @size? Beyond RLIMIT_FSIZE the kernel
// would not only refuse but send SIGXFSZ.
bool file_size_allowed(uint64_t size);

// Decimal digits of @value to @out (no NUL); how many.
int put_decimal(char *out, uint64_t value);

// "/proc/<pid>/<file>", "/proc/self/<file>" for 0.
void process_file(char *out, int pid, const char *file);

// Start time of a process (0: this one) in ticks since boot. 0: unknown.
uint64_t process_start_time(int pid);

} // namespace sframe
