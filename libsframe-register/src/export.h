// SPDX-License-Identifier: MIT
//
// The mirror of a registry for other processes: a file in /dev/shm named
// sframe.<uid>.<pid>.<start time>, mode 0600, which its owner only ever writes
// and tools only ever read. Plain C structures, because the writer lives in
// processes without a C++ runtime.
//
// The file is a header and chunks. Chunks come in two kinds, entries and
// strings; the n-th of a kind is twice as long as the one before, so that few
// suffice and none moves. Entry i describes slot i; strings lie at the offset
// they have in the writer's own memory. A chunk is listed before it is used.
//
// A writer may die at any instruction, and a reader may read at any time: each
// entry has a sequence number, odd while it is being written and never used
// twice. A reader takes an entry if two copies, made one after the other, are
// equal and even. What it read is still not trusted: another process may write
// anything. Copy, then check, then use.
#pragma once

#include <cstdint>
#include "registry_state.h"

namespace sframe {

inline constexpr uint64_t export_magic = 0x3150584552465300;	// "\0SFREXP1"
inline constexpr uint32_t export_layout = 1;
inline constexpr uint32_t export_header_size = 4096;
inline constexpr uint32_t export_first_entries = 64;
inline constexpr uint64_t export_first_strings = 8192;

enum ExportKind : uint32_t { export_entries = 0, export_strings = 1 };

// The n-th chunk of a kind: its size, what it begins with, and which one holds
// an entry or string offset.
inline constexpr uint64_t export_first_size[2] = { export_first_entries * 128, export_first_strings };
inline constexpr uint64_t export_first_count[2] = { export_first_entries, export_first_strings };
inline uint64_t chunk_size(unsigned int kind, uint32_t n) { return export_first_size[kind] << n; }
inline uint64_t chunk_first(unsigned int kind, uint32_t n)
{
	return export_first_count[kind] * ((UINT64_C(1) << n) - 1);
}
inline uint32_t chunk_of(unsigned int kind, uint64_t at)
{
	return 63 - (uint32_t)__builtin_clzll(at / export_first_count[kind] + 1);
}

struct ExportChunk {
	uint64_t offset;	// in the file
	uint64_t size;		// bytes
	uint64_t first;		// index of its first entry, or string offset
	uint32_t kind;
	uint32_t reserved;
};

struct ExportHeader {
	uint64_t magic;		// written last
	uint32_t layout;
	uint32_t entry_size;
	uint32_t pid;		// in the writer's PID namespace
	uint32_t uid;
	uint64_t start_time;
	uint64_t pid_namespace;	// inode, or 0
	uint64_t control;	// where the registry is in the writer
	int32_t backend;
	uint32_t chunk_count;
	uint64_t missing;	// ranges that found no room here
	uint64_t stats[stat_count];
	ExportChunk chunk[2 * export_chunks];
};
static_assert(sizeof(ExportHeader) <= export_header_size);

struct ExportEntry {
	uint64_t sequence;
	uint64_t id;		// 0: free
	uint64_t text_start, text_end;
	uint64_t sframe_start, sframe_size;
	uint64_t func_base;
	uint64_t load_bias;
	uint64_t path;		// string offset
	uint32_t path_length;
	uint32_t flags;
	uint32_t source;
	uint32_t version;
	uint32_t build_id_size;
	unsigned char build_id[20];
	uint64_t reserved[2];
};
static_assert(sizeof(ExportEntry) == 128);

// All with the writers' lock held. Failures are counted; the index goes on.
void export_put(Control *c, const Slot *slot);
void export_clear(Control *c, const Slot *slot);
void export_stats(Control *c);
// In a forked child: the mirror is the parent's.
void export_forget(Control *c);
// Take the name away.
void export_unlink(Control *c);

// The parts of a segment's name; false if it is none. "<directory>/" may precede.
struct SegmentName {
	uint64_t uid, pid, start_time;
};
bool segment_name_parse(const char *path, SegmentName *name);

// Remove segments of this user's processes that are no more. Looks at @most of
// them; returns how many it removed.
int export_sweep(const char *directory, int most);

} // namespace sframe
