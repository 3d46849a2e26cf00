// SPDX-License-Identifier: MIT
//
// Start of the sampler, and its signal handler: unwind where the signal came
// from and put the frames into the ring. In the handler: no lock, no
// allocation, no thread-local storage, no errno, little stack (the frames are
// written where they will be read, in the ring).
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <sframe/register.h>
#include <sframe/registry.h>
#include <sframe/unwind.h>
#include "sampler.h"
#include "sys.h"

namespace sframe::record {

constinit Sampler sampler = {};

namespace {

// Ids whose object record is in the ring. Direct-mapped: a collision costs a
// second record, nothing else.
constexpr uint32_t SEEN_SLOTS = 4096;
uint64_t seen[SEEN_SLOTS];

constexpr uint64_t STATS_EVERY_NS = 250'000'000;

} // namespace

void *next_symbol(const char *name) { return dlsym(RTLD_NEXT, name); }

uint64_t now_ns(clockid_t clock)
{
	timespec ts = {};

	clock_gettime(clock, &ts);
	return ts.tv_sec * UINT64_C(1000000000) + ts.tv_nsec;
}

bool sampling_here()
{
	return __atomic_load_n(&sampler.active, __ATOMIC_ACQUIRE) &&
	       sys::call(__NR_getpid) == static_cast<long>(sampler.pid);
}

// ---- records other than samples -------------------------------------------

namespace {

// Room for a record with a path behind it; the path is written by the caller.
template <typename T> T *begin_record(Reservation *r)
{
	*r = ring_reserve(sampler.ring, sizeof(T) + RING_MAX_PATH);
	if (!r->record)
		return nullptr;
	memset(r->record, 0, sizeof(T));
	return reinterpret_cast<T *>(r->record);
}

bool send_object(const sframe_range &range)
{
	Reservation r;
	ring_object *object = begin_record<ring_object>(&r);

	if (!object)
		return false;
	object->id = range.id;
	object->load_bias = range.load_bias;
	object->text_start = range.text_start;
	object->text_end = range.text_end;
	object->source = range.source;
	object->version = range.version;
	object->build_id_size =
		range.build_id_size < sizeof(range.build_id) ? range.build_id_size : sizeof(range.build_id);
	memcpy(object->build_id, range.build_id, object->build_id_size);
	int length = sframe_range_path(range.id, reinterpret_cast<char *>(object + 1), RING_MAX_PATH);
	if (length < 0)
		length = 0;
	if (length > static_cast<int>(RING_MAX_PATH))
		length = RING_MAX_PATH;
	object->path_size = length;
	return ring_commit(sampler.ring, r, RING_OBJECT, sampler.image, sizeof(ring_object) + length);
}

void send_stats()
{
	sframe_stats stats = {};

	stats.size = sizeof(stats);
	if (sframe_get_stats(&stats) < 0)
		return;
	const Reservation r = ring_reserve(sampler.ring, sizeof(ring_stats));
	if (!r.record)
		return;
	ring_stats *out = reinterpret_cast<ring_stats *>(r.record);
	out->native = stats.objects_native;
	out->synthesized = stats.objects_synthesized;
	out->refused = stats.objects_refused;
	out->live = stats.live;
	ring_commit(sampler.ring, r, RING_STATS, sampler.image, sizeof(ring_stats));
}

void send_image(uint32_t parent)
{
	Reservation r;
	ring_image *image = begin_record<ring_image>(&r);

	if (!image)
		return;
	image->pid = sampler.pid;
	image->parent_image = parent;
	image->time_ns = now_ns(CLOCK_MONOTONIC);
	image->start_ns = now_ns(CLOCK_REALTIME);
	long length = sys::call(__NR_readlink, sys::arg("/proc/self/exe"), sys::arg(image + 1),
				RING_MAX_PATH);
	if (length < 0)
		length = 0;
	image->path_size = length;
	ring_commit(sampler.ring, r, RING_IMAGE, sampler.image, sizeof(ring_image) + length);
}

// ---- samples ----------------------------------------------------------------

// The id of the range of each PC. Neighbours on a stack are mostly of a few
// objects: the last two ranges answer most of them.
void find_ids(const uint64_t *pcs, uint64_t *ids, int count)
{
	struct Known {
		uint64_t start, end, id;
	} known[2] = {};
	unsigned int next = 0;
	sframe_range range;

	for (int i = 0; i < count; i++) {
		const uint64_t pc = pcs[i] - (i ? 1 : 0);
		ids[i] = 0;
		for (const Known &k : known)
			if (pc >= k.start && pc < k.end)
				ids[i] = k.id;
		if (ids[i])
			continue;
		range.size = sizeof(range);
		if (sframe_find(pc, &range) != 0)
			continue;
		ids[i] = range.id;
		known[next++ % 2] = { range.text_start, range.text_end, range.id };
		uint64_t *const slot = &seen[range.id % SEEN_SLOTS];
		if (__atomic_load_n(slot, __ATOMIC_RELAXED) != range.id && send_object(range))
			__atomic_store_n(slot, range.id, __ATOMIC_RELAXED);
	}
}

void take_sample(const ThreadSlot &slot, uint32_t overrun, const ucontext_t *context)
{
	constexpr size_t LARGEST = sizeof(ring_sample) + RING_MAX_FRAMES * 2 * sizeof(uint64_t);
	const uint64_t now = now_ns(CLOCK_MONOTONIC);
	const Reservation r = ring_reserve(sampler.ring, LARGEST);

	if (overrun)
		ring_count(&sampler.ring.header->overruns, overrun);
	if (!r.record) {
		ring_count(&sampler.ring.header->lost);
		return;
	}
	ring_sample *const sample = reinterpret_cast<ring_sample *>(r.record);
	uint64_t *const pcs = reinterpret_cast<uint64_t *>(sample + 1);
	sframe_regs regs;
	sframe_trace trace = {};

	trace.size = sizeof(trace);
	sframe_regs_from_ucontext(&regs, context);
	int count = sframe_unwind(&regs, pcs, RING_MAX_FRAMES, SFRAME_UNWIND_CHECKED, &trace);
	if (count < 0)
		count = 0;
	find_ids(pcs, pcs + count, count);
	sample->pid = sampler.pid;
	sample->tid = slot.tid;
	sample->time_ns = now;
	sample->stop_pc = trace.stop_pc;
	sample->overrun = overrun;
	sample->stop = trace.stop;
	sample->count = count;
	sample->frames_sframe = trace.frames_sframe;
	sample->frames_fp = trace.frames_fp;
	sample->frames_signal = trace.frames_signal;
	sample->reserved = 0;
	if (!ring_commit(sampler.ring, r, RING_SAMPLE, sampler.image,
			 sizeof(ring_sample) + count * 2 * sizeof(uint64_t)))
		ring_count(&sampler.ring.header->late);

	uint64_t last = __atomic_load_n(&sampler.last_stats_ns, __ATOMIC_RELAXED);
	if (now - last > STATS_EVERY_NS &&
	    __atomic_compare_exchange_n(&sampler.last_stats_ns, &last, now, false, __ATOMIC_RELAXED,
					__ATOMIC_RELAXED))
		send_stats();
}

ThreadSlot *slot_of(const siginfo_t *info)
{
	if (info->si_code != SI_TIMER)
		return nullptr;
	const uintptr_t value = reinterpret_cast<uintptr_t>(info->si_value.sival_ptr);
	const uintptr_t first = reinterpret_cast<uintptr_t>(sampler.threads);
	if (value < first || value - first >= MAX_THREADS * sizeof(ThreadSlot) ||
	    (value - first) % sizeof(ThreadSlot))
		return nullptr;
	return reinterpret_cast<ThreadSlot *>(value);
}

} // namespace

void on_signal(int sig, siginfo_t *info, void *context)
{
	ThreadSlot *const slot = slot_of(info);

	if (!slot) {
		signal_forward(sig, info, context);
		return;
	}
	if (slot->tid) {	// else: on its way when the timer was deleted
		if (__atomic_load_n(&sampler.ring.header->closed, __ATOMIC_RELAXED))
			thread_stop(*slot);
		else
			take_sample(*slot, info->si_overrun > 0 ? info->si_overrun : 0,
				    static_cast<ucontext_t *>(context));
		restart_interrupted(*slot, static_cast<ucontext_t *>(context));
	}
}

// ---- start ------------------------------------------------------------------

namespace {

bool map_ring(RingWriter *ring, int fd)
{
	struct stat st;
	ring_header first;

	if (fstat(fd, &st) < 0 || pread(fd, &first, sizeof(first), 0) != sizeof(first))
		return false;
	const uint32_t slots = first.slots;
	if (first.magic != RING_MAGIC || first.version != RING_VERSION || slots < RING_MIN_SLOTS ||
	    slots > RING_MAX_SLOTS || (slots & (slots - 1)) ||
	    static_cast<uint64_t>(st.st_size) < ring_file_size(slots))
		return false;

	const size_t head = ring_data_offset(slots);
	const size_t data = static_cast<size_t>(slots) * RING_SLOT_SIZE;
	void *all = mmap(nullptr, head + 2 * data, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (all == MAP_FAILED)
		return false;
	char *const base = static_cast<char *>(all);
	const int prot = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_FIXED;
	if (mmap(base, head + data, prot, flags, fd, 0) == MAP_FAILED ||
	    mmap(base + head + data, data, prot, flags, fd, head) == MAP_FAILED) {
		munmap(all, head + 2 * data);
		return false;
	}
	ring->header = static_cast<ring_header *>(all);
	ring->stamps = reinterpret_cast<uint64_t *>(base + RING_HEADER_SIZE);
	ring->data = reinterpret_cast<unsigned char *>(base + head);
	ring->slots = slots;
	return true;
}

bool attach()
{
	const int fd = open(image_ring_path(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return false;
	const bool mapped = map_ring(&sampler.ring, fd);
	close(fd);
	if (!mapped)
		return false;
	const ring_header &h = *sampler.ring.header;
	sampler.wall = h.wall;
	sampler.follow = h.follow;
	sampler.owner = h.owner;
	sampler.period_ns = h.period_ns;
	sampler.signo = h.signo >= 1 && h.signo < NSIG ? static_cast<int>(h.signo) : SIGRTMAX - 2;
	sampler.pid = getpid();
	return !h.closed && sampler.period_ns >= 10'000 &&
	       (sampler.follow || sampler.owner == sampler.pid);
}

// Normally the auditor has registered what is loaded. Where ld.so did not take
// it, this much can be done: what is loaded by now.
void register_without_auditor()
{
	sframe_stats stats = {};

	stats.size = sizeof(stats);
	if (sframe_get_stats(&stats) == 0 && stats.registered == 0)
		sframe_register_loaded();
}

void start()
{
	image_init();
	if (!*image_ring_path())
		return;
	if (attach() && threads_init() && signals_init()) {
		register_without_auditor();
		__atomic_store_n(&sampler.active, true, __ATOMIC_RELEASE);
		sampler_new_image(0);
		threads_arm_existing();
	}
	image_hide();
}

} // namespace

void sampler_new_image(uint32_t parent)
{
	sampler.pid = getpid();
	sampler.image = 1 + __atomic_fetch_add(&sampler.ring.header->next_image, 1, __ATOMIC_RELAXED);
	memset(seen, 0, sizeof(seen));
	sampler.last_stats_ns = now_ns(CLOCK_MONOTONIC);
	send_image(parent);
	send_stats();
}

void ensure_started()
{
	static int begun;
	int expected = 0;

	if (__atomic_load_n(&begun, __ATOMIC_RELAXED))
		return;
	if (__atomic_compare_exchange_n(&begun, &expected, 1, false, __ATOMIC_ACQ_REL,
					__ATOMIC_RELAXED))
		start();
}

} // namespace sframe::record

__attribute__((constructor)) static void sampler_constructor()
{
	sframe::record::ensure_started();
}
