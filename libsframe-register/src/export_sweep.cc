// SPDX-License-Identifier: MIT
//
// A process that is killed leaves its segment behind. Others of the same user
// remove it: a few when they start, all when `sframectl list` looks.
#include "export.h"
#include "process.h"
#include "sys.h"

#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

namespace sframe {

namespace {

struct DirectoryEntry {
	uint64_t inode;
	int64_t offset;
	uint16_t length;
	uint8_t type;
	char name[];
};

// A segment without its magic yet may be one that is being made. One whose
// maker saw no /proc may be of a PID namespace that we do not know.
constexpr int64_t grace_unfinished = 60, grace_unknown = 24 * 60 * 60;

bool parse_decimal(const char **text, char end, uint64_t *value)
{
	const char *p = *text;

	for (*value = 0; *p >= '0' && *p <= '9' && p - *text < 19; p++)
		*value = *value * 10 + (uint64_t)(*p - '0');
	if (p == *text || *p != end)
		return false;
	*text = end ? p + 1 : p;
	return true;
}

// Does it belong to a process of ours, seen by the same numbers, that is no more?
bool segment_stale(int directory, const char *file, const SegmentName &name)
{
	uint64_t words[6] = {};		// up to pid_namespace
	struct stat st, ns;
	struct timespec now;

	static_assert(offsetof(ExportHeader, pid_namespace) == 4 * 8);
	if (sys::call(__NR_kill, (long)name.pid, 0) != -ESRCH) {
		const uint64_t seen = process_start_time((int)name.pid);

		if (seen == 0 || seen == name.start_time)
			return false;
	}
	const long fd = sys::call(__NR_openat, directory, sys::arg(file),
				  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return false;
	const bool known = sys::call(__NR_fstat, fd, sys::arg(&st)) == 0 && S_ISREG(st.st_mode) &&
			   st.st_uid == (uint32_t)sys::call(__NR_geteuid) &&
			   sys::call(__NR_pread64, fd, sys::arg(words), sizeof(words), 0) >= 0;
	sys::call(__NR_close, fd);
	if (!known)
		return false;
	if (words[0] == export_magic && words[4])
		return sys::call(__NR_newfstatat, AT_FDCWD, sys::arg("/proc/self/ns/pid"),
				 sys::arg(&ns), 0) == 0 && words[4] == ns.st_ino;
	sys::call(__NR_clock_gettime, CLOCK_REALTIME, sys::arg(&now));
	return now.tv_sec - st.st_mtime >
	       (words[0] == export_magic ? grace_unknown : grace_unfinished);
}

} // namespace

bool segment_name_parse(const char *path, SegmentName *name)
{
	const char *p = path;

	for (const char *at = path; *at; at++)
		if (*at == '/')
			p = at + 1;
	if (strlen(p) < 7 || memcmp(p, "sframe.", 7))
		return false;
	p += 7;
	return parse_decimal(&p, '.', &name->uid) && parse_decimal(&p, '.', &name->pid) &&
	       parse_decimal(&p, 0, &name->start_time);
}

int export_sweep(const char *directory, int most)
{
	alignas(8) char buffer[4096];
	int removed = 0;
	long n;

	// Without /proc every process would look dead.
	if (process_start_time(0) == 0)
		return 0;
	const long fd = sys::call(__NR_openat, AT_FDCWD, sys::arg(directory),
				  O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	const auto me = (uint64_t)sys::call(__NR_geteuid);
	while (most > 0 &&
	       (n = sys::call(__NR_getdents64, fd, sys::arg(buffer), sizeof(buffer))) > 0) {
		for (long at = 0; at < n && most > 0;) {
			auto *entry = (const DirectoryEntry *)(buffer + at);
			SegmentName name;

			at += entry->length;
			if (!segment_name_parse(entry->name, &name) || name.uid != me)
				continue;
			most--;
			if (segment_stale((int)fd, entry->name, name) &&
			    sys::call(__NR_unlinkat, fd, sys::arg(entry->name), 0) == 0)
				removed++;
		}
		// A starting process stops at the first piece.
		if (most < 1000)
			break;
	}
	sys::call(__NR_close, fd);
	return removed;
}

} // namespace sframe
