// SPDX-License-Identifier: MIT
//
// libsframe-audit.so: an LD_AUDIT module that registers what the dynamic linker
// loads, in every namespace, and drops it before it is unmapped.
//
// It is a guest in somebody's process: it asks for no hook per symbol or call,
// has no thread-local storage, needs no library, says nothing, and whatever
// goes wrong inside it, the program runs as without it. All callbacks come
// under the linker's lock, so nothing here needs one.
#include <cstring>
#include <link.h>
#include <sys/mman.h>
#include <sframe/register.h>
#include "config.h"
#include "debug.h"
#include "environment.h"
#include "link_map.h"
#include "object_table.h"
#include "registry.h"
#include "report.h"
#include "sys.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

// ld.so's: the stack pointer that the program started with.
extern "C" void *__libc_stack_end;
// The linker editor's: this module's own ELF header.
extern "C" const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));

namespace sframe {

namespace {

constexpr char kOwnName[] = "libsframe-audit.so";

// An object between la_objopen() and la_objclose(). The linker keeps a pointer
// to it in the object's cookie.
struct Object {
	Object *next;			// in the list of those to register, or of free ones
	const struct link_map *map;
	Headers headers;
	enum State : uint32_t { kFree, kPending, kRegistered, kRefused } state;
};

struct Auditor {
	InitialStack stack;
	Reporter reporter;
	Object *pending;
	Object *free;
	const struct link_map *main;
	bool started;		// environment edited, vDSO registered
	bool exiting;
	char executable[4096];
};

constinit Auditor self = {};

Object *allocate()
{
	constexpr size_t kSlab = 64 * 1024;

	if (!self.free) {
		const long at = sys::call(__NR_mmap, 0, kSlab, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (sys::failed(at))
			return nullptr;
		auto *objects = reinterpret_cast<Object *>(at);
		for (size_t i = 0; i < kSlab / sizeof(Object); i++) {
			objects[i].next = self.free;
			self.free = &objects[i];
		}
	}
	Object *object = self.free;
	self.free = object->next;
	*object = {};
	return object;
}

const char *find_variable(const char *name) { return environment_find(self.stack.envp, name); }

const char *executable_path()
{
	if (!self.executable[0]) {
		const long n = sys::call(__NR_readlink, sys::arg("/proc/self/exe"),
					 sys::arg(self.executable), sizeof(self.executable) - 1);
		self.executable[sys::failed(n) ? 0 : n] = 0;
	}
	return self.executable;
}

sframe_object describe(const Object &object)
{
	sframe_object described = {};

	described.size = sizeof(described);
	described.load_bias = object.map->l_addr;
	described.phdr = object.headers.phdr;
	described.phnum = object.headers.phnum;
	described.path = object.map->l_name;
	if (!described.path || !*described.path)
		described.path = executable_path();
	return described;
}

void register_one(Object &object)
{
	const auto *phdr = reinterpret_cast<const Elf64_Phdr *>(
		auxiliary(self.stack.auxv, AT_PHDR));
	const size_t phnum = auxiliary(self.stack.auxv, AT_PHNUM);

	object.state = Object::kRefused;
	if (!find_headers(*object.map, phdr, phnum, &object.headers)) {
		debug_event("no program headers", object.map->l_name, 0);
		return;
	}
	const sframe_object described = describe(object);
	if (sframe_register_object(&described, nullptr) > 0)
		object.state = Object::kRegistered;
}

// The vDSO comes through la_objopen() since glibc 2.35; before, nobody says.
void register_vdso()
{
	const uint64_t at = auxiliary(self.stack.auxv, AT_SYSINFO_EHDR);
	const auto *eh = reinterpret_cast<const Elf64_Ehdr *>(at);
	sframe_object object = {};

	if (!at || !readable(at, sizeof(*eh)) || eh->e_phentsize != sizeof(Elf64_Phdr))
		return;
	object.size = sizeof(object);
	object.phdr = reinterpret_cast<const Elf64_Phdr *>(at + eh->e_phoff);
	object.phnum = eh->e_phnum;
	object.path = "linux-vdso.so.1";
	for (size_t i = object.phnum; i-- > 0;)
		if (object.phdr[i].p_type == PT_LOAD)
			object.load_bias = at + object.phdr[i].p_offset - object.phdr[i].p_vaddr;
	if (!object_known(object_key(object)))
		sframe_register_object(&object, nullptr);
}

size_t list_item_length(const char *list)
{
	size_t length = 0;

	while (list[length] && list[length] != ':')
		length++;
	return length;
}

// Where LD_AUDIT says this module is: the linker does not tell a module its own name.
const char *own_path()
{
	const char *list = find_variable("LD_AUDIT");
	static char path[4096];

	while (list && *list) {
		const size_t length = list_item_length(list);
		const size_t name = sizeof(kOwnName) - 1;

		if (length >= name && length < sizeof(path) &&
		    !memcmp(list + length - name, kOwnName, name)) {
			memcpy(path, list, length);
			return path;
		}
		list += length + (list[length] == ':');
	}
	return kOwnName;
}

// This module's code runs in the program's threads, and a sample may hit it.
// No callback speaks of objects in a module's own namespace.
void register_self()
{
	const auto *eh = &__ehdr_start;
	sframe_object object = {};

	object.size = sizeof(object);
	object.load_bias = reinterpret_cast<uint64_t>(eh);
	object.phdr = reinterpret_cast<const Elf64_Phdr *>(object.load_bias + eh->e_phoff);
	object.phnum = eh->e_phnum;
	object.path = own_path();
	sframe_register_object(&object, nullptr);
}

// Children run without the auditor unless somebody asked for it. The linker
// reads LD_AUDIT while it loads auditors, so this waits until all are loaded.
void edit_environment()
{
	const char *inherit = find_variable("SFRAME_INHERIT");

	if (inherit && inherit[0] == '1' && inherit[1] == 0)
		return;
	remove_from_list(self.stack.envp, "LD_AUDIT", kOwnName, false);
	remove_variable(self.stack.envp, kReportVariable);
}

void start()
{
	self.started = true;
	config();
	self.reporter.open(find_variable(kReportVariable));
	register_self();
	edit_environment();
}

void register_pending()
{
	const uint64_t begin = monotonic_nanoseconds();
	const bool first = !self.started;

	if (first)
		start();
	if (!self.pending)
		return;
	while (Object *object = self.pending) {
		self.pending = object->next;
		register_one(*object);
	}
	if (first)
		register_vdso();
	self.reporter.update(monotonic_nanoseconds() - begin);
}

void forget_pending(const Object *object)
{
	for (Object **at = &self.pending; *at; at = &(*at)->next)
		if (*at == object) {
			*at = object->next;
			return;
		}
}

void close_object(Object *object)
{
	if (object->state == Object::kPending) {
		forget_pending(object);
	} else if (object->state == Object::kRegistered) {
		const sframe_object described = describe(*object);
		sframe_unregister_object(&described);
	}
	release_headers(object->headers);
	*object = {};
	object->next = self.free;
	self.free = object;
}

} // namespace
} // namespace sframe

using namespace sframe;

EXPORT unsigned int la_version(unsigned int offered)
{
	self.stack = initial_stack(__libc_stack_end);
	// Zero makes the linker forget this module at once.
	if (auxiliary(self.stack.auxv, AT_SECURE))
		return 0;
	config_source(find_variable, false);
	return offered < LAV_CURRENT ? offered : LAV_CURRENT;
}

EXPORT unsigned int la_objopen(struct link_map *map, Lmid_t, uintptr_t *cookie)
{
	Object *object = allocate();

	*cookie = reinterpret_cast<uintptr_t>(object);
	if (!self.main)
		self.main = map;	// the linker begins with the program
	if (object) {
		object->map = map;
		object->state = Object::kPending;
		object->next = self.pending;
		self.pending = object;
	}
	return 0;	// no symbol binding, no PLT hooks
}

EXPORT void la_activity(uintptr_t *, unsigned int flag)
{
	if (flag == LA_ACT_CONSISTENT && !self.exiting)
		register_pending();
}

EXPORT unsigned int la_objclose(uintptr_t *cookie)
{
	auto *object = reinterpret_cast<Object *>(*cookie);

	if (!object || self.exiting)
		return 0;
	// The main program is never unloaded: the process is on its way out,
	// and what it still runs until then stays registered.
	if (object->map == self.main) {
		self.exiting = true;
		registry_exit();	// only its name in shared memory goes
	} else {
		close_object(object);
	}
	return 0;
}
