// SPDX-License-Identifier: MIT
//
// Finding another process's registry. Its maps tell: the segment it has mapped
// is its own if the name says so, its parent's otherwise (then the process was
// forked and has not registered anything since); what is not mapped any more
// stood before an exec and is nobody's.
#include "peer.h"

#include "config.h"
#include "export.h"
#include "process.h"
#include "registry_state.h"
#include "sys.h"

#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

struct sframe_peer {
	int pid;
	int origin;
	int fd;			// of the segment, or -1: the index is read from memory
	uint64_t control;
};

namespace sframe {

namespace {

// While the owner is between creating the file and completing it.
constexpr int opening_tries = 20;

struct Seen {
	char segment[512] = {};
	uint64_t inode = 0;
	SegmentName name = {};
	bool own = false;
	uint64_t control = 0;
	bool hidden = false;	// there is an index, in memory that we may not read
};

int read_segment(void *io, uint64_t at, void *to, size_t size)
{
	const auto *peer = (const sframe_peer *)io;

	return sys::call(__NR_pread64, peer->fd, sys::arg(to), (long)size, (long)at) != (long)size;
}

int read_memory(void *io, uint64_t at, void *to, size_t size)
{
	const auto *peer = (const sframe_peer *)io;
	const struct iovec local = { to, size }, remote = { (void *)at, size };

	return sys::call(__NR_process_vm_readv, peer->pid, sys::arg(&local), 1, sys::arg(&remote), 1,
			 0) != (long)size;
}

// The process's number in its own PID namespace: the last of the NSpid line.
uint64_t innermost_pid(int pid)
{
	char path[64], text[4096];
	uint64_t last = (uint64_t)pid;

	process_file(path, pid, "status");
	const long fd = sys::call(__NR_openat, AT_FDCWD, sys::arg(path), O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return last;
	const long n = sys::call(__NR_read, fd, sys::arg(text), sizeof(text) - 1);
	sys::call(__NR_close, fd);
	text[n > 0 ? n : 0] = 0;
	for (const char *p = text; *p; p++) {
		if (memcmp(p, "\nNSpid:", 7))
			continue;
		for (p += 7; *p == '\t' || *p == ' ';)
			for (last = 0, p++; *p >= '0' && *p <= '9'; p++)
				last = last * 10 + (uint64_t)(*p - '0');
		break;
	}
	return last;
}

bool control_is_live(const sframe_peer &peer, uint64_t at, bool *hidden)
{
	uint32_t state;

	if (read_memory((void *)&peer, at + offsetof(Control, state), &state, sizeof(state))) {
		*hidden = true;
		return false;
	}
	return state == control_live;
}

int look_at_maps(const sframe_peer &peer, Seen *seen)
{
	const uint64_t pid = innermost_pid(peer.pid), start = process_start_time(peer.pid);
	ProcessMaps maps(peer.pid);
	Mapping m;

	if (maps.error())
		return maps.error();
	while (maps.next(&m)) {
		SegmentName name;

		if (registry_mapping(m) && !seen->control) {
			if (control_is_live(peer, m.start, &seen->hidden))
				seen->control = m.start;
		}
		if (seen->own || !m.shared || !segment_name_parse(m.path, &name))
			continue;
		memcpy(seen->segment, m.path, strlen(m.path) + 1);
		seen->inode = m.inode;
		seen->name = name;
		seen->own = name.pid == pid && name.start_time == start;
	}
	return 0;
}

int open_segment(const char *path, uint64_t inode)
{
	struct stat st;
	const long fd = sys::call(__NR_openat, AT_FDCWD, sys::arg(path),
				  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return (int)fd;
	if (sys::call(__NR_fstat, fd, sys::arg(&st)) || !S_ISREG(st.st_mode) || st.st_ino != inode) {
		sys::call(__NR_close, fd);
		return -ENOENT;
	}
	return (int)fd;
}

// As the process sees the name, which may be in another mount namespace.
int open_seen(int pid, const Seen &seen)
{
	char path[64 + sizeof(seen.segment)];

	process_file(path, pid, "root");
	memcpy(path + strlen(path), seen.segment, strlen(seen.segment) + 1);
	const int fd = open_segment(path, seen.inode);
	return fd >= 0 ? fd : open_segment(seen.segment, seen.inode);
}

int find_registry(sframe_peer *peer)
{
	Seen seen;
	const int err = look_at_maps(*peer, &seen);

	if (err)
		return err == -ENOENT ? -ESRCH : err;
	peer->origin = seen.segment[0] && !seen.own ? (int)seen.name.pid : peer->pid;
	if (seen.own) {
		peer->fd = open_seen(peer->pid, seen);
		if (peer->fd >= 0)
			return 0;
	}
	peer->control = seen.control;
	if (seen.control)
		return 0;
	return seen.hidden ? -EACCES : -ENOENT;
}

int read_peer(sframe_peer *peer, PeerSummary *summary, PeerRanges *ranges)
{
	if (peer->fd >= 0)
		return peer_read_segment({ read_segment, peer }, summary, ranges);
	return peer_read_index({ read_memory, peer }, peer->control, summary, ranges);
}

int settle_open(sframe_peer *peer)
{
	const struct timespec pause = { 0, 1'000'000 };
	PeerSummary summary;
	int err = 0;

	for (int i = 0; i < opening_tries; i++) {
		err = read_peer(peer, &summary, nullptr);
		if (err != -EBADMSG)
			break;
		sys::call(__NR_nanosleep, sys::arg(&pause), 0);
	}
	return err;
}

} // namespace

} // namespace sframe

using namespace sframe;

EXPORT int sframe_peer_open(sframe_peer **out, int pid)
{
	if (pid <= 0 || process_start_time(pid) == 0)
		return -ESRCH;
	const long p = sys::call(__NR_mmap, 0, sizeof(sframe_peer), PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys::failed(p))
		return -ENOMEM;
	auto *peer = (sframe_peer *)p;
	peer->pid = pid;
	peer->fd = -1;
	int err = find_registry(peer);
	if (!err)
		err = settle_open(peer);
	if (err)
		sframe_peer_close(peer);
	else
		*out = peer;
	return err;
}

EXPORT void sframe_peer_close(sframe_peer *peer)
{
	if (!peer)
		return;
	if (peer->fd >= 0)
		sys::call(__NR_close, peer->fd);
	sys::call(__NR_munmap, sys::arg(peer), sizeof(*peer));
}

EXPORT int sframe_peer_each(sframe_peer *peer,
			    int (*visit)(const sframe_range *, const char *, void *), void *arg)
{
	PeerSummary summary;
	PeerRanges ranges;
	const int err = read_peer(peer, &summary, &ranges);

	if (err)
		return err;
	int visited = 0;
	for (uint64_t i = 0; i < ranges.count; i++, visited++)
		if (visit(&ranges.item[i].range, ranges.text + ranges.item[i].path, arg))
			return visited + 1;
	return visited;
}

EXPORT int sframe_peer_info(sframe_peer *peer, int *backend, sframe_stats *stats)
{
	PeerSummary summary;

	if (stats->size < sizeof(*stats))
		return -EINVAL;
	const int err = read_peer(peer, &summary, nullptr);
	if (err)
		return err;
	*backend = summary.backend;
	const size_t size = stats->size;
	memset(stats, 0, size);
	memcpy(stats, &summary.stats, sizeof(summary.stats));
	stats->size = size;
	return 0;
}

EXPORT int sframe_peer_origin(const sframe_peer *peer) { return peer->origin; }

EXPORT int sframe_peer_sweep(void) { return export_sweep(config().shm_dir, index_limit); }
