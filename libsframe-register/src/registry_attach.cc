// SPDX-License-Identifier: MIT
//
// One registry for all copies of the library in a process. The control page is
// a private mapping of a memfd, whose name /proc/self/maps shows: so a copy
// finds it, whichever namespace it lives in, before and after fork() (a
// private mapping is copied with the process) and without /dev/shm.
//
// Two copies that start at the same moment settle it so: each maps a page as
// candidate first and looks around afterwards. The one that mapped later sees
// the other for certain. A live one wins; else the one at the lower address,
// which waits until the others have withdrawn (or turned out to be live).
#include "process.h"
#include "registry_state.h"
#include "sys.h"

#include <sys/mman.h>
#include <time.h>

namespace sframe {

namespace {

constexpr char memory_name[] = "sframe-registry";
constexpr char mapping_name[] = "/memfd:sframe-registry";
constexpr uint64_t control_size = 4096;

Control *attached;
uint32_t lookups_without;	// since nothing was found: when to look again

// A candidate whose maker is not in this process came here by fork.
bool abandoned(const Control *c)
{
	return c->owner_process != (uint32_t)sys::call(__NR_getpid);
}

struct Found {
	Control *live = nullptr;
	Control *candidate = nullptr;	// the lowest
	unsigned int candidates = 0;
};

Found look_around()
{
	ProcessMaps maps(0);
	Mapping m;
	Found found;

	while (!found.live && maps.next(&m)) {
		Control *c = (Control *)m.start;

		if (!registry_mapping(m) || c->magic != registry_magic || c->layout != layout_version)
			continue;
		// Once: between two loads a candidate could go live, and be neither.
		const uint32_t state = acquire(&c->state);
		if (state == control_live)
			found.live = c;
		else if (state == control_candidate && !abandoned(c) && found.candidates++ == 0)
			found.candidate = c;
	}
	return found;
}

void pause_briefly()
{
	const struct timespec t = { 0, 100'000 };

	sys::call(__NR_nanosleep, sys::arg(&t), 0);
}

Guard *make_guard(Control *c)
{
	const long p = sys::call(__NR_mmap, 0, sizeof(Guard), PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys::failed(p))
		return nullptr;
	c->wipes = !sys::failed(sys::call(__NR_madvise, p, sizeof(Guard), MADV_WIPEONFORK));
	Guard *guard = (Guard *)p;
	guard->alive = 1;
	guard->pid = (uint32_t)sys::call(__NR_getpid);
	return guard;
}

// The page, complete before it can be found. Where memfds are not allowed it
// has no name, and each copy of the library has a registry of its own.
Control *make_candidate()
{
	alignas(64) char page[control_size] = {};
	Control *c = (Control *)page;

	c->magic = registry_magic;
	c->layout = layout_version;
	c->size = sizeof(Control);
	c->state = control_candidate;
	c->owner = (uint32_t)sys::call(__NR_gettid);
	c->owner_process = (uint32_t)sys::call(__NR_getpid);
	Guard *guard = make_guard(c);
	if (!guard)
		return nullptr;
	c->guard = (uint64_t)guard;

	long p = -ENOSYS;
	const long fd = file_size_allowed(control_size) ?
		sys::call(__NR_memfd_create, sys::arg(memory_name), MFD_CLOEXEC) : -EFBIG;
	if (fd >= 0) {
		if (sys::call(__NR_write, fd, sys::arg(page), control_size) == (long)control_size)
			p = sys::call(__NR_mmap, 0, control_size, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE, fd, 0);
		sys::call(__NR_close, fd);
	}
	if (sys::failed(p)) {
		p = sys::call(__NR_mmap, 0, control_size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (!sys::failed(p))
			__builtin_memcpy((void *)p, page, control_size);
	}
	if (sys::failed(p)) {
		sys::call(__NR_munmap, c->guard, sizeof(Guard));
		return nullptr;
	}
	return (Control *)p;
}

// Its page stays mapped: another candidate may be looking at it.
void withdraw(Control *c)
{
	if (acquire(&c->state) == control_withdrawn)
		return;
	release(&c->state, (uint32_t)control_withdrawn);
	sys::call(__NR_munmap, (long)c->guard, sizeof(Guard));
}

Control *make_or_find()
{
	Found found = look_around();
	if (found.live)
		return found.live;
	Control *mine = make_candidate();
	if (!mine)
		return nullptr;
	// The others decide in microseconds; a second is for one that was preempted.
	for (int i = 0; i < 10'000; i++) {
		found = look_around();
		if (found.live) {
			withdraw(mine);
			return found.live;
		}
		const bool candidate = acquire(&mine->state) == control_candidate;
		// Not even mine is seen: without /proc, descriptors or memfds each
		// copy of the library is on its own.
		if (candidate && found.candidates == 0)
			break;
		if (found.candidate != mine)
			withdraw(mine);
		else if (found.candidates == 1)
			break;
		pause_briefly();
	}
	if (acquire(&mine->state) == control_withdrawn)
		return look_around().live;
	release(&mine->state, (uint32_t)control_live);
	return mine;
}

} // namespace

bool registry_mapping(const Mapping &m)
{
	return !m.executable && m.readable && !m.shared && m.end - m.start == control_size &&
	       !__builtin_memcmp(m.path, mapping_name, sizeof(mapping_name) - 1);
}

Control *registry_control(bool create)
{
	Control *c = acquire(&attached);

	if (__builtin_expect(c != nullptr, 1))
		return c;
	if (create) {
		c = make_or_find();
	} else {
		// Asking costs a reading of maps: less and less often.
		const uint32_t n = __atomic_add_fetch(&lookups_without, 1, __ATOMIC_RELAXED);

		if ((n & (n - 1)) && n % 1024)
			return nullptr;
		c = look_around().live;
	}
	if (c)
		release(&attached, c);
	return c;
}

} // namespace sframe
