// SPDX-License-Identifier: MIT
//
// What the registry asks of a C library, where there is one: to be told of
// fork() and of the end of the process.
#include "registry.h"

#include <pthread.h>

namespace {

thread_local bool held;
thread_local uint64_t mask;

void prepare() { held = sframe::registry_fork_prepare(&mask); }

void parent()
{
	if (held)
		sframe::registry_fork_parent(mask);
}

void child()
{
	if (held)
		sframe::registry_fork_child(mask);
}

__attribute__((constructor)) void loaded() { pthread_atfork(prepare, parent, child); }

// The library is linked so that dlclose() does not unload it: this is the end.
__attribute__((destructor)) void at_exit() { sframe::registry_exit(); }

} // namespace
