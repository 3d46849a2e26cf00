// SPDX-License-Identifier: MIT
#include "recorder.h"

#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unistd.h>
#include "command.h"
#include "profile.h"
#include "ring_reader.h"
#include "runtime.h"

namespace sframe::record {

namespace {

// What a shell answers when it cannot run a command.
constexpr int STATUS_NOT_FOUND = 127, STATUS_NOT_EXECUTABLE = 126;
constexpr std::chrono::milliseconds DRAIN_EVERY{ 50 };
constexpr char RING_PREFIX[] = "sframe-ring.";

uint64_t now_ns(clockid_t clock)
{
	timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * UINT64_C(1000000000) + ts.tv_nsec;
}

// ---- the ring's file ----------------------------------------------------------

// Rings of recorders that were killed stay behind; the next one removes them.
void sweep_stale_rings(const std::string &directory)
{
	DIR *const dir = opendir(directory.c_str());

	if (!dir)
		return;
	const std::string own = RING_PREFIX + std::to_string(getuid()) + ".";
	while (const dirent *entry = readdir(dir)) {
		if (strncmp(entry->d_name, own.c_str(), own.size()))
			continue;
		const int pid = atoi(entry->d_name + own.size());
		if (pid > 0 && kill(pid, 0) < 0 && errno == ESRCH)
			unlinkat(dirfd(dir), entry->d_name, 0);
	}
	closedir(dir);
}

// In shared memory, else in a file that the page cache holds as well.
std::unique_ptr<RingReader> create_ring(const RecordOptions &options, const profile_header &header)
{
	const char *const tmpdir = getenv("TMPDIR");
	const std::array<std::string, 3> directories = { "/dev/shm", tmpdir ? tmpdir : "", "/tmp" };
	std::string why;

	for (const std::string &directory : directories) {
		if (directory.empty())
			continue;
		sweep_stale_rings(directory);
		const std::string path = directory + "/" + RING_PREFIX + std::to_string(getuid()) + "." +
					 std::to_string(getpid()) + "." +
					 std::to_string(now_ns(CLOCK_MONOTONIC) & 0xffffff);
		std::unique_ptr<RingReader> ring;
		const int err = RingReader::create(path, options.slots, &ring);
		if (!err) {
			ring->header()->period_ns = header.period_ns;
			ring->header()->wall = options.wall;
			ring->header()->follow = options.follow;
			ring->header()->signo = options.signo;
			return ring;
		}
		why += (why.empty() ? "" : "; ") + directory + ": " + strerror(-err);
	}
	complain("no room for the sample ring (%s); the program runs unsampled", why.c_str());
	return nullptr;
}

// ---- the program ---------------------------------------------------------------

int cannot_execute(const char *name, int err)
{
	complain("%s: %s", name, strerror(err));
	return err == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
}

// In the child: what the sampler needs to know.
void set_environment(const RingReader &ring, const RecordOptions &options)
{
	const std::string sampler = runtime_library("libsframe-sampler.so");
	const std::string audit = runtime_library("libsframe-audit.so");

	setenv("SFRAME_RECORD", ring.path().c_str(), 1);
	setenv("SFRAME_RECORD_PRELOAD", sampler.c_str(), 1);
	prepend_variable("LD_PRELOAD", sampler);
	if (!audit.empty()) {
		setenv("SFRAME_RECORD_AUDIT", audit.c_str(), 1);
		prepend_variable("LD_AUDIT", audit);
	}
	if (options.follow)
		setenv("SFRAME_INHERIT", "1", 1);
}

// Does not return.
void become_program(const Program &program, const RecordOptions &options)
{
	exec_program(program, options.argv);
	_exit(cannot_execute(options.argv[0], errno));
}

// ---- draining -------------------------------------------------------------------

class Drain {
public:
	Drain(RingReader &ring, ProfileWriter &out) : ring_(ring), out_(out) {}

	void run(bool no_writers);
	profile_counters counters() const;

	uint64_t samples = 0, complete = 0;
	std::map<std::pair<uint32_t, uint32_t>, uint64_t> threads;	// samples of each

private:
	void look_at_sample(const ring_sample &sample);
	void name_thread(uint32_t pid, uint32_t tid);

	RingReader &ring_;
	ProfileWriter &out_;
	std::map<std::pair<uint32_t, uint32_t>, std::string> names_;
};

void Drain::run(bool no_writers)
{
	const auto now = RingReader::Clock::now();
	const uint64_t lost = counters().lost;
	// A writer that is faster than this loop must not keep it here forever.
	for (uint32_t budget = RING_MAX_SLOTS; budget; budget--) {
		const ring_record *const record = ring_.next(now, no_writers);
		if (!record)
			break;
		std::vector<uint64_t> copy((record->size + 7) / 8);
		memcpy(copy.data(), record, record->size);
		if (record->kind > RING_STATS)
			continue;	// the file's kinds are not a writer's to send
		if (record->kind == RING_SAMPLE)
			look_at_sample(*reinterpret_cast<const ring_sample *>(copy.data()));
		out_.append(reinterpret_cast<ring_record *>(copy.data()));
	}
	if (counters().lost != lost) {
		profile_counters now_lost = counters();
		out_.append(&now_lost.record);
	}
	out_.flush();
}

void Drain::look_at_sample(const ring_sample &sample)
{
	samples++;
	complete += sample.stop == 0 && sample.frames_fp == 0;
	uint64_t &n = threads[{ sample.pid, sample.tid }];
	n++;
	// Programs name their threads soon after the start, or a little later.
	if (n == 1 || n == 16 || n == 256)
		name_thread(sample.pid, sample.tid);
}

void Drain::name_thread(uint32_t pid, uint32_t tid)
{
	const std::string path = "/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/comm";
	char name[16] = {};
	const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	const ssize_t n = read(fd, name, sizeof(name) - 1);
	close(fd);
	if (n <= 0)
		return;
	name[strcspn(name, "\n")] = 0;
	std::string &known = names_[{ pid, tid }];
	if (known == name)
		return;
	known = name;
	profile_thread record = {};
	record.record.kind = PROFILE_THREAD;
	record.record.size = sizeof(record);
	record.pid = pid;
	record.tid = tid;
	memcpy(record.name, name, sizeof(name));
	out_.append(&record.record);
}

profile_counters Drain::counters() const
{
	const ring_header &h = *ring_.header();
	profile_counters c = {};

	c.record.kind = PROFILE_COUNTERS;
	c.record.size = sizeof(c);
	c.lost = __atomic_load_n(&h.lost, __ATOMIC_RELAXED) + ring_.abandoned() + ring_.damaged();
	c.overruns = __atomic_load_n(&h.overruns, __ATOMIC_RELAXED);
	c.unsampled_threads = __atomic_load_n(&h.unsampled_threads, __ATOMIC_RELAXED);
	c.threads = __atomic_load_n(&h.threads, __ATOMIC_RELAXED);
	return c;
}

// Drains in a thread of its own, while this one waits for the program and
// minds the terminal.
int drain_while_running(Drain &drain, pid_t pid)
{
	std::mutex mutex;
	std::condition_variable ended;
	bool end = false;
	sigset_t all, before;

	// Signals are for this thread.
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	std::thread drainer([&] {
		std::unique_lock lock(mutex);
		while (!ended.wait_for(lock, DRAIN_EVERY, [&] { return end; }))
			drain.run(false);
	});
	pthread_sigmask(SIG_SETMASK, &before, nullptr);
	const int status = wait_for(pid);
	{
		const std::lock_guard lock(mutex);
		end = true;
	}
	ended.notify_one();
	drainer.join();
	return status;
}

// ---- the end --------------------------------------------------------------------

void summarize(const Drain &drain, const RecordOptions &options, const RingReader &ring)
{
	const profile_counters c = drain.counters();
	std::string notes;

	if (__atomic_load_n(&ring.header()->next_image, __ATOMIC_RELAXED) == 0) {
		complain("%s: no samples: the sampler was not loaded into it", options.argv[0]);
		return;
	}
	if (c.unsampled_threads)
		notes += ", " + std::to_string(c.unsampled_threads) + " threads without a timer";
	if (c.overruns)
		notes += ", " + std::to_string(c.overruns) + " periods passed over";
	fprintf(stderr,
		"sframectl: %llu samples, %.1f %% complete, %llu lost, %zu threads%s; %s\n",
		static_cast<unsigned long long>(drain.samples),
		drain.samples ? 100.0 * static_cast<double>(drain.complete) / static_cast<double>(drain.samples) :
				0.0,
		static_cast<unsigned long long>(c.lost), drain.threads.size(), notes.c_str(),
		options.file.c_str());
}

profile_header header_for(const RecordOptions &options)
{
	profile_header h = {};

	h.magic = PROFILE_MAGIC;
	h.version = PROFILE_VERSION;
	h.header_size = sizeof(h);
	h.period_ns = 1'000'000'000 / options.frequency;
	h.wall = options.wall;
	h.follow = options.follow;
	h.start_ns = now_ns(CLOCK_REALTIME);
	h.start_monotonic_ns = now_ns(CLOCK_MONOTONIC);
	return h;
}

void write_end(ProfileWriter &out, const Drain &drain, int status)
{
	profile_end end = {};

	end.counters = drain.counters();
	end.counters.record.kind = PROFILE_END;
	end.counters.record.size = sizeof(end);
	end.end_monotonic_ns = now_ns(CLOCK_MONOTONIC);
	end.wait_status = status;
	out.append(&end.counters.record);
}

} // namespace

int record_program(const RecordOptions &options)
{
	const char *const name = options.argv[0];
	const Program program = find_program(name);
	const bool library = !runtime_library("libsframe-sampler.so").empty();
	if (program.error)
		return cannot_execute(name, program.error);
	if (!program.obstacle.empty())
		complain("%s: runs unsampled: %s", program.linked.c_str(), program.obstacle.c_str());
	else if (!library)
		complain("%s: runs unsampled: libsframe-sampler.so is not found; set SFRAME_LIBDIR", name);

	ProfileWriter out;
	const profile_header header = header_for(options);
	if (const int err = out.open(options.file, header))
		return complain("%s: %s; name another file with -o", options.file.c_str(), strerror(-err));
	out.append_command(options.argv);

	std::unique_ptr<RingReader> ring = create_ring(options, header);
	if (!ring)
		become_program(program, options);
	const bool sampled = program.obstacle.empty() && library;
	const pid_t pid = fork();
	if (pid < 0)
		return complain("%s: cannot start: %s", name, strerror(errno));
	if (pid == 0) {
		ring->header()->owner = getpid();
		if (sampled)
			set_environment(*ring, options);
		become_program(program, options);
	}
	Drain drain(*ring, out);
	const int status = drain_while_running(drain, pid);
	ring->close();
	drain.run(!options.follow);	// with --follow a child may still be writing
	write_end(out, drain, status);
	if (const int err = out.flush())
		complain("%s: %s; the profile is not complete", options.file.c_str(), strerror(-err));
	if (sampled)
		summarize(drain, options, *ring);
	ring.reset();
	end_like(status);
}

} // namespace sframe::record
