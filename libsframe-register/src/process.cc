// SPDX-License-Identifier: MIT
#include "process.h"
#include "sys.h"

#include <fcntl.h>
#include <sys/resource.h>

namespace sframe {

namespace {

// include/uapi/linux/fs.h since Linux 6.11, in our words: older headers lack it.
struct ProcmapQuery {
	uint64_t size, query_flags, query_addr;
	uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
	uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
	uint64_t vma_name_addr, build_id_addr;
};
static_assert(sizeof(ProcmapQuery) == 104);

constexpr long procmap_query = 0xc0686611;	// _IOWR('f', 17, struct procmap_query)
constexpr uint64_t vma_executable = 4;

// More pieces than this in one text range: taken on trust.
constexpr int max_pieces = 64;

// Kernels without the query would read all of maps for each range: what was
// executable once is remembered. A JIT has few code areas, an object is asked
// for once. Words are single: a torn pair could only cost a question more, as
// both halves are checked against the same range.
struct Seen {
	uint64_t start, end;
} seen[16];
uint32_t seen_next;

int proc_open(int pid, const char *file)
{
	char path[64];

	process_file(path, pid, file);
	return (int)sys::call(__NR_openat, AT_FDCWD, sys::arg(path), O_RDONLY | O_CLOEXEC);
}

int query_executable(int fd, uint64_t start, uint64_t end)
{
	for (int i = 0; i < max_pieces && start < end; i++) {
		ProcmapQuery query = {};

		query.size = sizeof(query);
		query.query_addr = start;
		const long ret = sys::call(__NR_ioctl, fd, procmap_query, sys::arg(&query));
		if (ret == -ENOENT)
			return 0;
		if (ret < 0)
			return (int)ret;
		if (!(query.vma_flags & vma_executable))
			return 0;
		start = query.vma_end;
	}
	return 1;
}

bool seen_executable(uint64_t start, uint64_t end)
{
	for (Seen &s : seen) {
		const uint64_t from = __atomic_load_n(&s.start, __ATOMIC_RELAXED);

		if (from && from <= start && end <= __atomic_load_n(&s.end, __ATOMIC_RELAXED))
			return true;
	}
	return false;
}

void remember_executable(const Mapping &m)
{
	Seen &s = seen[__atomic_fetch_add(&seen_next, 1, __ATOMIC_RELAXED) % 16];

	__atomic_store_n(&s.start, UINT64_C(0), __ATOMIC_RELAXED);
	__atomic_store_n(&s.end, m.end, __ATOMIC_RELAXED);
	__atomic_store_n(&s.start, m.start, __ATOMIC_RELAXED);
}

int scan_executable(uint64_t start, uint64_t end)
{
	ProcessMaps maps(0);
	Mapping m;

	if (maps.error())
		return maps.error();
	while (start < end && maps.next(&m)) {
		if (m.end <= start)
			continue;
		if (m.start > start || !m.executable)
			return 0;
		remember_executable(m);
		start = m.end;
	}
	return start >= end;
}

} // namespace

void process_file(char *out, int pid, const char *file)
{
	const char *prefix = "/proc/";

	while (*prefix)
		*out++ = *prefix++;
	if (pid)
		out += put_decimal(out, (uint64_t)pid);
	else
		for (const char *self = "self"; *self;)
			*out++ = *self++;
	*out++ = '/';
	while ((*out++ = *file++))
		;
}

bool file_size_allowed(uint64_t size)
{
	uint64_t limit[2] = { 0, 0 };

	return sys::call(__NR_prlimit64, 0, RLIMIT_FSIZE, 0, sys::arg(limit)) == 0 &&
	       limit[0] >= size;
}

int put_decimal(char *out, uint64_t value)
{
	char digits[20];
	int n = 0;

	do
		digits[n++] = (char)('0' + value % 10);
	while (value /= 10);
	for (int i = 0; i < n; i++)
		out[i] = digits[n - 1 - i];
	return n;
}

ProcessMaps::ProcessMaps(int pid) : fd(proc_open(pid, "maps")) {}

ProcessMaps::~ProcessMaps()
{
	if (fd >= 0)
		sys::call(__NR_close, fd);
}

int ProcessMaps::get()
{
	if (pos == have) {
		long n;

		if (fd < 0)
			return -1;
		do
			n = sys::call(__NR_read, fd, sys::arg(buffer), sizeof(buffer));
		while (n == -EINTR);
		if (n <= 0)
			return -1;
		have = (int)n;
		pos = 0;
	}
	return (unsigned char)buffer[pos++];
}

uint64_t ProcessMaps::hex()
{
	uint64_t value = 0;
	int c;

	while ((c = get()) >= 0) {
		if (c >= '0' && c <= '9')
			value = value << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (uint64_t)(c - 'a' + 10);
		else
			break;
	}
	return value;
}

// start-end perms offset major:minor inode   path
bool ProcessMaps::next(Mapping *m)
{
	unsigned int n = 0;
	int c;

	m->start = hex();
	m->end = hex();
	m->readable = get() == 'r';
	get();
	m->executable = get() == 'x';
	m->shared = get() == 's';
	get();
	m->offset = hex();
	m->major = (uint32_t)hex();
	m->minor = (uint32_t)hex();
	m->inode = 0;
	while ((c = get()) >= '0' && c <= '9')
		m->inode = m->inode * 10 + (uint64_t)(c - '0');
	while (c == ' ')
		c = get();
	for (; c >= 0 && c != '\n'; c = get())
		if (n < sizeof(line) - 1)
			line[n++] = (char)c;
	line[n] = 0;
	m->path = line;
	return m->end != 0;
}

int maps_executable(uint64_t start, uint64_t end)
{
	if (seen_executable(start, end))
		return 1;
	const int fd = proc_open(0, "maps");
	if (fd < 0)
		return fd;
	const int answer = query_executable(fd, start, end);
	sys::call(__NR_close, fd);
	return answer < 0 ? scan_executable(start, end) : answer;
}

uint64_t process_start_time(int pid)
{
	char text[1024];
	const int fd = proc_open(pid, "stat");
	uint64_t value = 0;

	if (fd < 0)
		return 0;
	const long n = sys::call(__NR_read, fd, sys::arg(text), sizeof(text));
	sys::call(__NR_close, fd);
	if (n <= 0)
		return 0;
	// Field 22; the command, field 2, may hold anything, parentheses too.
	long at = n - 1;
	while (at > 0 && text[at] != ')')
		at--;
	for (int field = 2; at < n && field < 22; at++)
		field += text[at] == ' ';
	for (; at < n && text[at] >= '0' && text[at] <= '9'; at++)
		value = value * 10 + (uint64_t)(text[at] - '0');
	return value;
}

} // namespace sframe
