// SPDX-License-Identifier: MIT
//
// Writing the mirror. Nothing here may disturb the program: no descriptor
// stays open, pages are allocated before they are written (a full tmpfs would
// answer a store with SIGBUS), RLIMIT_FSIZE is asked before it would answer
// with SIGXFSZ, and nothing is ever read back from the file. Where it cannot
// be had, the index goes on alone, errors are counted, and now and then it is
// tried again.
#include "export.h"

#include "config.h"
#include "process.h"
#include "stats.h"
#include "sys.h"

#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace sframe {

namespace {

constexpr size_t max_name = 4096 + 96;
// /dev/shm may hold thousands of names: a starting process looks at so many.
constexpr int sweep_at_start = 8;

ExportHeader *header_of(const Control *c) { return (ExportHeader *)c->mirror.header; }

size_t put_text(char *out, const char *text)
{
	const size_t n = strlen(text);

	memcpy(out, text, n + 1);
	return n;
}

// <directory>/sframe.<uid>.<pid>.<start time>
bool segment_name(char *out, uint32_t pid)
{
	const char *directory = config().shm_dir;

	if (strlen(directory) >= 4096)
		return false;
	out += put_text(out, directory);
	out += put_text(out, "/sframe.");
	out += put_decimal(out, (uint64_t)sys::call(__NR_geteuid));
	*out++ = '.';
	out += put_decimal(out, pid);
	*out++ = '.';
	out += put_decimal(out, process_start_time(0));
	*out = 0;
	return true;
}

uint64_t pid_namespace()
{
	struct stat st;

	if (sys::call(__NR_newfstatat, AT_FDCWD, sys::arg("/proc/self/ns/pid"), sys::arg(&st), 0))
		return 0;
	return st.st_ino;
}

// Allocate pages, so that storing to them cannot fail.
int allocate(int fd, uint64_t offset, uint64_t size)
{
	static const char zeros[512] = {};

	if (!file_size_allowed(offset + size))
		return -EFBIG;
	long ret = sys::call(__NR_fallocate, fd, 0, (long)offset, (long)size);
	// A directory of the user's choice may be on a file system without it.
	if (ret == -EOPNOTSUPP)
		for (uint64_t at = offset; at < offset + size; at += sizeof(zeros)) {
			ret = sys::call(__NR_pwrite64, fd, sys::arg(zeros), sizeof(zeros), (long)at);
			if (ret != (long)sizeof(zeros))
				return ret < 0 ? (int)ret : -ENOSPC;
			ret = 0;
		}
	return (int)ret;
}

int add_chunk(Control *c, int fd, unsigned int kind)
{
	ExportState &m = c->mirror;
	ExportHeader *header = header_of(c);
	const uint32_t n = m.count[kind];

	if (n == export_chunks)
		return -ENOSPC;
	const uint64_t size = chunk_size(kind, n);
	const int err = allocate(fd, m.file_size, size);
	if (err)
		return err;
	const long p = sys::call(__NR_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
				 (long)m.file_size);
	if (sys::failed(p))
		return (int)p;
	m.address[kind][n] = (uint64_t)p;
	m.count[kind]++;
	const uint32_t listed = m.count[0] + m.count[1];
	header->chunk[listed - 1] = { m.file_size, size, chunk_first(kind, n), kind, 0 };
	release(&header->chunk_count, listed);
	m.file_size += size;
	return 0;
}

int map_header(Control *c, int fd)
{
	struct stat st;
	int err = allocate(fd, 0, export_header_size);

	if (!err)
		err = (int)sys::call(__NR_fstat, fd, sys::arg(&st));
	if (err)
		return err;
	const long p = sys::call(__NR_mmap, 0, export_header_size, PROT_READ | PROT_WRITE,
				 MAP_SHARED, fd, 0);
	if (sys::failed(p))
		return (int)p;
	c->mirror.header = (uint64_t)p;
	c->mirror.inode = st.st_ino;
	c->mirror.file_size = export_header_size;
	return 0;
}

void fill_header(Control *c)
{
	ExportHeader *header = header_of(c);

	header->layout = export_layout;
	header->entry_size = sizeof(ExportEntry);
	header->pid = c->mirror.pid;
	header->uid = (uint32_t)sys::call(__NR_geteuid);
	header->start_time = process_start_time(0);
	header->pid_namespace = pid_namespace();
	header->control = (uint64_t)c;
	export_stats(c);
}

void unmap_all(Control *c)
{
	ExportState &m = c->mirror;

	for (unsigned int kind = 0; kind < 2; kind++)
		for (uint32_t n = 0; n < m.count[kind]; n++)
			sys::call(__NR_munmap, (long)m.address[kind][n], (long)chunk_size(kind, n));
	if (m.header)
		sys::call(__NR_munmap, (long)m.header, export_header_size);
	m = {};
}

int open_new(const char *name)
{
	const long flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	long fd = sys::call(__NR_openat, AT_FDCWD, sys::arg(name), flags, 0600);

	// Of this very process: it stood before an exec.
	if (fd == -EEXIST && sys::call(__NR_unlinkat, AT_FDCWD, sys::arg(name), 0) == 0)
		fd = sys::call(__NR_openat, AT_FDCWD, sys::arg(name), flags, 0600);
	// Whatever the umask: it is opened again to grow.
	if (fd >= 0)
		sys::call(__NR_fchmod, fd, 0600);
	return (int)fd;
}

int create(Control *c)
{
	char name[max_name];

	c->mirror.pid = (uint32_t)sys::call(__NR_getpid);
	if (!segment_name(name, c->mirror.pid))
		return -ENAMETOOLONG;
	export_sweep(config().shm_dir, sweep_at_start);
	const int fd = open_new(name);
	if (fd < 0)
		return fd;
	int err = map_header(c, fd);
	for (unsigned int kind = 0; !err && kind < 2; kind++)
		err = add_chunk(c, fd, kind);
	sys::call(__NR_close, fd);
	if (err) {
		sys::call(__NR_unlinkat, AT_FDCWD, sys::arg(name), 0);
		unmap_all(c);
		return err;
	}
	fill_header(c);
	release(&header_of(c)->magic, export_magic);
	return 0;
}

// The file again, if it is still the one we made.
int reopen(const Control *c)
{
	char name[max_name];
	struct stat st;

	if (!segment_name(name, c->mirror.pid))
		return -ENAMETOOLONG;
	const int fd = (int)sys::call(__NR_openat, AT_FDCWD, sys::arg(name),
				      O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return fd;
	if (sys::call(__NR_fstat, fd, sys::arg(&st)) || st.st_ino != c->mirror.inode) {
		sys::call(__NR_close, fd);
		return -ESTALE;
	}
	return fd;
}

// Count a failure; try again after twice as many registrations as last time.
void failed(Control *c)
{
	ExportState &m = c->mirror;

	stat_add(c, Stat::export_errors);
	if (m.failures < 20)
		m.failures++;
	m.retry_at = c->stats[(unsigned int)Stat::registered] + (UINT64_C(8) << m.failures);
}

bool may_try(const Control *c)
{
	return c->stats[(unsigned int)Stat::registered] >= c->mirror.retry_at;
}

// Make room for entry or string offset @at.
bool cover(Control *c, unsigned int kind, uint64_t at)
{
	const uint32_t wanted = chunk_of(kind, at) + 1;

	if (c->mirror.count[kind] >= wanted)
		return true;
	if (!may_try(c))
		return false;
	int err = reopen(c);
	if (err >= 0) {
		const int fd = err;

		for (err = 0; !err && c->mirror.count[kind] < wanted;)
			err = add_chunk(c, fd, kind);
		sys::call(__NR_close, fd);
	}
	if (err < 0)
		failed(c);
	return err == 0;
}

void put_string(Control *c, uint64_t at, const char *text, uint32_t length)
{
	while (length) {
		const uint32_t n = chunk_of(export_strings, at);
		const uint64_t in = at - chunk_first(export_strings, n);
		const uint64_t room = chunk_size(export_strings, n) - in;
		const uint32_t part = length < room ? length : (uint32_t)room;

		memcpy((char *)c->mirror.address[export_strings][n] + in, text, part);
		at += part;
		text += part;
		length -= part;
	}
}

ExportEntry *entry_at(const Control *c, uint32_t index)
{
	const uint32_t n = chunk_of(export_entries, index);

	if (n >= c->mirror.count[export_entries])
		return nullptr;
	return (ExportEntry *)c->mirror.address[export_entries][n] +
	       (index - chunk_first(export_entries, n));
}

// Bracket a change of an entry. x86-64 keeps stores in order; the compiler must too.
void begin_entry(Control *c, ExportEntry *entry)
{
	c->mirror.sequence += 2;
	release(&entry->sequence, c->mirror.sequence - 1);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

void end_entry(const Control *c, ExportEntry *entry)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	release(&entry->sequence, c->mirror.sequence);
}

void write_entry(Control *c, ExportEntry *entry, const Slot *slot)
{
	const uint64_t at = (uint64_t)slot->record * record_unit;
	uint32_t length = slot->record ? record_at(c, slot->record)->length : 0;

	if (length && !cover(c, export_strings, at + length))
		length = 0;
	begin_entry(c, entry);
	entry->id = slot->id;
	entry->text_start = slot->text_start;
	entry->text_end = slot->text_end;
	entry->sframe_start = slot->section.addr;
	entry->sframe_size = slot->sframe_size;
	entry->func_base = slot->flags & SFRAME_FUNC_BASE ? slot->section.base : 0;
	entry->load_bias = slot->load_bias;
	entry->path = at;
	entry->path_length = length;
	entry->flags = slot->flags;
	entry->source = slot->source;
	entry->version = slot->section.version;
	entry->build_id_size = slot->build_id_size;
	memcpy(entry->build_id, slot->build_id, sizeof(entry->build_id));
	if (length)
		put_string(c, at, record_at(c, slot->record)->path, length);
	end_entry(c, entry);
}

bool put_one(Control *c, const Slot *slot)
{
	const auto index = (uint32_t)(slot - (const Slot *)c->slots);

	if (!cover(c, export_entries, index)) {
		header_of(c)->missing++;
		return false;
	}
	write_entry(c, entry_at(c, index), slot);
	return true;
}

void put_all(Control *c)
{
	header_of(c)->missing = 0;
	for (uint32_t i = 0; i < c->slot_arena.fresh; i++)
		if (((const Slot *)c->slots + i)->id)
			put_one(c, (const Slot *)c->slots + i);
}

} // namespace

void export_put(Control *c, const Slot *slot)
{
	if (!c->mirror.header) {
		if (c->exiting || !may_try(c))
			return;
		if (create(c) < 0)
			failed(c);
		else
			put_all(c);
		return;
	}
	// Once there is room again, those that found none come along.
	if (put_one(c, slot) && header_of(c)->missing)
		put_all(c);
}

void export_clear(Control *c, const Slot *slot)
{
	if (!c->mirror.header)
		return;
	ExportEntry *entry = entry_at(c, (uint32_t)(slot - (const Slot *)c->slots));
	if (!entry) {
		header_of(c)->missing--;
		return;
	}
	begin_entry(c, entry);
	entry->id = 0;
	end_entry(c, entry);
}

void export_stats(Control *c)
{
	ExportHeader *header = header_of(c);

	if (!header)
		return;
	header->backend = c->backend;
	for (unsigned int i = 0; i < stat_count; i++)
		release(&header->stats[i], relaxed(&c->stats[i]));
}

// The sequence goes on: in the child's own file it need only never repeat.
void export_forget(Control *c)
{
	const uint64_t sequence = c->mirror.sequence;

	unmap_all(c);
	c->mirror.sequence = sequence;
}

void export_unlink(Control *c)
{
	char name[max_name];

	if (c->mirror.header && c->mirror.pid == (uint32_t)sys::call(__NR_getpid) &&
	    segment_name(name, c->mirror.pid))
		sys::call(__NR_unlinkat, AT_FDCWD, sys::arg(name), 0);
}

} // namespace sframe
