// SPDX-License-Identifier: MIT
//
// Everything the environment decides, in one place. The library itself never
// calls getenv(): in an auditor's namespace there is no libc to ask. Whoever
// embeds it says where the environment is: hosted.cc asks libc, the auditor
// reads the initial stack. Values are copied when they are first needed, so a
// later setenv() neither changes nor frees them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sframe {

struct Config {
	const char *backend;	// SFRAME_BACKEND, or "" if not set
	const char *cache_home;	// XDG_CACHE_HOME, or ""
	const char *home;	// HOME, or ""
	const char *shm_dir;	// SFRAME_SHM_DIR, default /dev/shm
	const char *sysfs_root;	// SFRAME_SYSFS_ROOT, default /sys/kernel/sframe
	bool debug;		// SFRAME_DEBUG set, not empty and not "0"
	bool secure;		// AT_SECURE: the variables above count as not set
};

// The process's configuration; read at the first call, the same ever after.
// Thread-safe, takes no lock. Values too long to keep count as not set.
const Config &config();

// Where config() looks variables up. @find returns the value or nullptr.
using FindVariable = const char *(*)(const char *name);
void config_source(FindVariable find, bool secure);

// Defined by hosted.cc only, where there is a libc: config() calls it if nobody
// has said where to look.
void config_from_libc() __attribute__((weak, visibility("hidden")));

// The value of @name in an envp array, or nullptr.
const char *environment_find(const char *const *envp, const char *name);

// For tests: forget what was read.
void config_reset();

} // namespace sframe
