// SPDX-License-Identifier: MIT
//
// What needs a libc of its own: the environment by secure_getenv(), the loaded
// objects by dl_iterate_phdr(). Only the shared library and what is preloaded
// contain this file; the auditor does not.
#include <cstdlib>
#include <link.h>
#include <sys/auxv.h>
#include <unistd.h>
#include "config.h"
#include "object_table.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace sframe {

namespace {

const char *find_in_libc(const char *name) { return secure_getenv(name); }

// Runs under the linker's lock: no object goes away while it is looked at.
int register_one(struct dl_phdr_info *info, size_t, void *arg)
{
	char executable[4096];
	sframe_object object = {};

	object.size = sizeof(object);
	object.load_bias = info->dlpi_addr;
	object.phdr = info->dlpi_phdr;
	object.phnum = info->dlpi_phnum;
	object.path = info->dlpi_name;
	if (object_known(object_key(object)))
		return 0;
	if (object.path && !*object.path) {
		const ssize_t n = readlink("/proc/self/exe", executable, sizeof(executable) - 1);
		executable[n < 0 ? 0 : n] = 0;
		object.path = executable;
	}
	if (sframe_register_object(&object, nullptr) > 0)
		++*static_cast<int *>(arg);
	return 0;
}

} // namespace

void config_from_libc() { config_source(find_in_libc, getauxval(AT_SECURE) != 0); }

} // namespace sframe

EXPORT int sframe_register_loaded(void)
{
	int registered = 0;

	dl_iterate_phdr(sframe::register_one, &registered);
	return registered;
}
