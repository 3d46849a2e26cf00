// SPDX-License-Identifier: MIT
//
// libsframe-preload.so: what libsframe-audit.so does, for programs that cannot
// be audited. Registers what is loaded when it starts and compares again after
// each dlopen(), dlmopen() and dlclose() of the program.
//
// Handles are not trusted: a call may load any number of objects or none. What
// is loaded is what the linker's lists say, in all namespaces, read under the
// linker's lock.
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>
#include <sframe/register.h>
#include "config.h"
#include "debug.h"
#include "environment.h"
#include "link_map.h"
#include "object_table.h"
#include "registry.h"
#include "report.h"
#include "return_site.h"
#include "sys.h"

#define EXPORT extern "C" __attribute__((visibility("default")))
#define INTERNAL extern "C" __attribute__((visibility("hidden")))

namespace sframe {

namespace {

constexpr char kOwnName[] = "libsframe-preload.so";

// An object of the linker's lists. The fingerprint tells a library that was
// loaded where another was from the one that was there.
struct Known {
	const struct link_map *map;
	ObjectKey key;
	uint64_t fingerprint;
	uint64_t round;		// last time it was seen
};

struct Preload {
	char **envp;
	Reporter reporter;
	Known *known;
	size_t count, capacity;
	uint64_t round;
	unsigned long long adds, subs;
	bool ready;		// constructed, and not secure
	char executable[4096];
};

constinit Preload self = {};

const char *find_variable(const char *name) { return environment_find(self.envp, name); }

const char *path_of(const struct link_map &map)
{
	if (map.l_name && *map.l_name)
		return map.l_name;
	if (!self.executable[0]) {
		const long n = sys::call(__NR_readlink, sys::arg("/proc/self/exe"),
					 sys::arg(self.executable), sizeof(self.executable) - 1);
		self.executable[sys::failed(n) ? 0 : n] = 0;
	}
	return self.executable;
}

uint64_t hash(const void *bytes, size_t size, uint64_t seed)
{
	const auto *at = static_cast<const unsigned char *>(bytes);

	for (size_t i = 0; i < size; i++)
		seed = (seed ^ at[i]) * UINT64_C(0x100000001b3);
	return seed;
}

// Of the headers and of the notes (the build-id is one of them).
uint64_t fingerprint(const struct link_map &map, const Headers &headers)
{
	uint64_t value = hash(headers.phdr, headers.phnum * sizeof(Elf64_Phdr), 1);

	for (size_t i = 0; i < headers.phnum; i++) {
		const Elf64_Phdr &ph = headers.phdr[i];
		const uint64_t at = map.l_addr + ph.p_vaddr;

		if (ph.p_type == PT_NOTE && ph.p_filesz <= 4096 && readable(at, ph.p_filesz))
			value = hash(reinterpret_cast<const void *>(at), ph.p_filesz, value);
	}
	return value;
}

Known *find_known(const struct link_map *map, uint64_t print)
{
	for (size_t i = 0; i < self.count; i++)
		if (self.known[i].map == map && self.known[i].fingerprint == print)
			return &self.known[i];
	return nullptr;
}

bool grow()
{
	const size_t capacity = self.capacity ? self.capacity * 2 : 128;
	const long at = sys::call(__NR_mmap, 0, sys::arg(capacity * sizeof(Known)),
				  PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (sys::failed(at))
		return false;
	if (self.known) {
		memcpy(reinterpret_cast<void *>(at), self.known, self.count * sizeof(Known));
		sys::call(__NR_munmap, sys::arg(self.known),
			  sys::arg(self.capacity * sizeof(Known)));
	}
	self.known = reinterpret_cast<Known *>(at);
	self.capacity = capacity;
	return true;
}

bool headers_of(const struct link_map &map, Headers *headers)
{
	return find_headers(map, reinterpret_cast<const Elf64_Phdr *>(getauxval(AT_PHDR)),
			    getauxval(AT_PHNUM), headers);
}

sframe_object describe(const struct link_map &map, const Headers &headers)
{
	sframe_object object = {};

	object.size = sizeof(object);
	object.load_bias = map.l_addr;
	object.phdr = headers.phdr;
	object.phnum = headers.phnum;
	object.path = path_of(map);
	return object;
}

// Calls @visit for each object of each namespace.
template <typename Visit> void each_object(Visit visit)
{
	const auto *debug = reinterpret_cast<const r_debug_extended *>(&_r_debug);

	while (debug) {
		for (struct link_map *map = debug->base.r_map; map; map = map->l_next)
			visit(*map);
		debug = debug->base.r_version >= 2 ? debug->r_next : nullptr;
	}
}

void mark_seen(const struct link_map &map)
{
	Headers headers;

	if (!headers_of(map, &headers))
		return;
	if (Known *known = find_known(&map, fingerprint(map, headers)))
		known->round = self.round;
	release_headers(headers);
}

// What was not seen is gone, and its addresses may be somebody else's by now.
void drop_unseen()
{
	for (size_t i = 0; i < self.count;) {
		if (self.known[i].round == self.round) {
			i++;
			continue;
		}
		object_drop(self.known[i].key);
		self.known[i] = self.known[--self.count];
	}
}

void register_new(const struct link_map &map)
{
	Headers headers;

	if (!headers_of(map, &headers))
		return;
	const uint64_t print = fingerprint(map, headers);
	if (!find_known(&map, print) && (self.count < self.capacity || grow())) {
		const sframe_object object = describe(map, headers);

		sframe_register_object(&object, nullptr);
		self.known[self.count++] = { &map, object_key(object), print, self.round };
	}
	release_headers(headers);
}

// Under the linker's lock, at the first object: look at everything, then stop.
int compare(struct dl_phdr_info *info, size_t, void *)
{
	if (info->dlpi_adds == self.adds && info->dlpi_subs == self.subs)
		return 1;
	const uint64_t begin = monotonic_nanoseconds();
	self.adds = info->dlpi_adds;
	self.subs = info->dlpi_subs;
	self.round++;
	each_object(mark_seen);
	drop_unseen();
	each_object(register_new);
	self.reporter.update(monotonic_nanoseconds() - begin);
	return 1;
}

enum Which { kDlopen, kDlmopen, kDlclose, kCount };

void *real_function(int which)
{
	static void *found[kCount];
	static const char *const kNames[] = { "dlopen", "dlmopen", "dlclose" };
	void *function = __atomic_load_n(&found[which], __ATOMIC_RELAXED);

	if (!function) {
		function = dlsym(RTLD_NEXT, kNames[which]);
		__atomic_store_n(&found[which], function, __ATOMIC_RELAXED);
	}
	return function;
}

// A shadow stack would not let a ret go where no call came from.
bool has_shadow_stack()
{
	uint64_t pointer = 0;

	asm volatile("rdsspq %0" : "+r"(pointer));
	return pointer != 0;
}

void edit_environment()
{
	const char *inherit = find_variable("SFRAME_INHERIT");

	if (inherit && inherit[0] == '1' && inherit[1] == 0)
		return;
	remove_from_list(self.envp, "LD_PRELOAD", kOwnName, true);
	remove_variable(self.envp, kReportVariable);
}

__attribute__((constructor)) void start(int, char **, char **envp)
{
	if (getauxval(AT_SECURE))
		return;
	self.envp = envp;
	config_source(find_variable, false);
	config();
	self.reporter.open(find_variable(kReportVariable));
	edit_environment();
	self.ready = true;
	dl_iterate_phdr(compare, nullptr);
}

__attribute__((destructor)) void leave() { registry_exit(); }

struct Plan {
	void *target;
	uint64_t site;
};

} // namespace
} // namespace sframe

using namespace sframe;

// For preload_entry.S: the function to jump to, and the ret to return through.
INTERNAL Plan sframe_preload_plan(uint64_t caller, int which)
{
	Plan plan = { real_function(which), 0 };

	if (self.ready && !has_shadow_stack())
		find_return_site(caller, &plan.site);
	return plan;
}

INTERNAL void sframe_preload_catch_up()
{
	if (self.ready)
		dl_iterate_phdr(compare, nullptr);
}

// dlclose() does not ask who called it.
EXPORT int dlclose(void *handle)
{
	const int result = reinterpret_cast<int (*)(void *)>(real_function(kDlclose))(handle);

	sframe_preload_catch_up();
	return result;
}
