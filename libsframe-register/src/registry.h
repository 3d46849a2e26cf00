// SPDX-License-Identifier: MIT
//
// The process's registry: an index from text ranges to parsed sections.
//
// Shape. A persistent (copy-on-write) B+ tree in private memory: a writer
// builds new nodes aside and publishes a new root with one store, so the index
// is whole at every instruction. Nodes that fell out are recycled first in,
// first out; a node names itself by a reference that is never used twice, and
// a reader that finds another reference than its parent gave starts over.
// Readers take no lock, make no system call and may be signal handlers.
// Private memory is what makes fork() right: the child has a snapshot of its
// own. The writers' lock lives in a page that the kernel wipes on fork: no
// lock survives into the child.
//
// One registry per process, not per copy of the library: the auditor, the
// sampler and the program may each have a copy (in namespaces of their own).
// The first to need it creates it; the others find it by its name in
// /proc/self/maps (registry_attach.cc). For other processes it is mirrored in
// a segment /dev/shm/sframe.<uid>.<pid>.<starttime> (export.h).
#pragma once

#include <cstdint>
#include "core.h"
#include <sframe/abi.h>
#include <sframe/register.h>
#include <sframe/registry.h>

namespace sframe {

// What an unwinder needs of a range: a copy, valid by itself.
struct Covering {
	uint64_t text_start;
	uint64_t text_end;
	uint64_t id;
	sframe_section section;
};

// 0, -ENOENT, -EBUSY. Lock-free, async-signal-safe.
int registry_lookup(uint64_t pc, Covering *out);

// Section bytes may be unmapped once a removal has returned (dlclose, cache
// release). Who reads them stands between enter and leave, and a removal that
// has taken its range out of the index waits, for a bounded time, until every
// reader that was inside has left (two counters by the parity of an epoch, in
// memory all copies of the library share; a reader may be a signal handler).
uint32_t registry_read_enter();
void registry_read_leave(uint32_t token);

// Rises with every removal or replacement, before the removal returns.
uint64_t registry_generation();

// What a registration says beyond struct sframe_setup.
struct Metadata {
	uint64_t load_bias = 0;
	const char *path = nullptr;
	sframe_source source = SFRAME_SOURCE_UNKNOWN;
	const unsigned char *build_id = nullptr;
	uint32_t build_id_size = 0;
	// The caller knows that the text is executable (program headers say so):
	// saves asking /proc.
	bool executable = false;
};

// sframe_register() with metadata; goes to the backend in use and to the index.
int registry_add(const sframe_setup &setup, const Metadata &meta);
int registry_remove(const sframe_setup &setup);

// Add to one of the process's statistics, which other processes see too; what
// objects and the cache count goes through here: &sframe_stats::cache_hits, ...
void registry_count(uint64_t sframe_stats::*which, uint64_t n = 1);

// The process is about to end: take the export's name away. Needs no order
// with anything else in the process and takes no lock; the index stays usable.
void registry_exit();

// Around fork(), where the C library tells: the child then begins with an
// index at rest. Without them (raw clone) the child repairs what it needs at
// its first registration. The other two only if prepare returned true, with
// the signal mask that it gave.
bool registry_fork_prepare(uint64_t *mask);
void registry_fork_parent(uint64_t mask);
void registry_fork_child(uint64_t mask);

} // namespace sframe
