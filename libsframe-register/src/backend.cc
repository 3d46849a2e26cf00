// SPDX-License-Identifier: MIT
//
// The choice of a backend, and the kernel's system calls.
//
// The calls' numbers are out of tree, so none may be guessed: they are read
// from the directory where a patched kernel publishes them, or were known to
// the kernel headers at build time. Even then a call must first prove itself:
// with size 0 it answers EINVAL, where a kernel without it says ENOSYS.
#include "backend.h"
#include "config.h"
#include "sys.h"

#include <cstring>
#include <fcntl.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace sframe {

namespace {

constexpr uint64_t all_features = SFRAME_GROWABLE | SFRAME_REPLACE | SFRAME_FUNC_BASE;

struct KernelCalls {
	uint64_t register_nr = 0, unregister_nr = 0, features = 0;
};

// A number as sysfs prints it: decimal, or hexadecimal after 0x.
bool parse_number(const char *text, uint64_t *value)
{
	const bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	const char *p = hex ? text + 2 : text;
	uint64_t v = 0;
	int digits = 0;

	for (;; p++, digits++) {
		const char c = *p | (hex ? 0x20 : 0);

		if (*p >= '0' && *p <= '9')
			v = v * (hex ? 16 : 10) + (uint64_t)(*p - '0');
		else if (hex && c >= 'a' && c <= 'f')
			v = v * 16 + (uint64_t)(c - 'a' + 10);
		else
			break;
	}
	*value = v;
	return digits > 0 && digits <= 16 && (*p == '\n' || *p == 0);
}

bool read_number(const char *root, const char *name, uint64_t *value)
{
	char path[4096 + 32], text[32] = {};
	const size_t length = strlen(root);

	if (length >= 4096)
		return false;
	memcpy(path, root, length);
	path[length] = '/';
	memcpy(path + length + 1, name, strlen(name) + 1);
	const long fd = sys::call(__NR_openat, AT_FDCWD, sys::arg(path), O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	const long n = sys::call(__NR_read, fd, sys::arg(text), sizeof(text) - 1);
	sys::call(__NR_close, fd);
	return n > 0 && parse_number(text, value);
}

bool proves_itself(uint64_t nr) { return sys::call((long)nr, 0, 0) == -EINVAL; }

bool find_kernel_calls(KernelCalls *calls)
{
	const char *root = config().sysfs_root;

	if (read_number(root, "register_nr", &calls->register_nr) &&
	    read_number(root, "unregister_nr", &calls->unregister_nr)) {
		if (!read_number(root, "features", &calls->features))
			calls->features = 0;
	} else {
#if defined(__NR_sframe_register) && defined(__NR_sframe_unregister)
		*calls = { __NR_sframe_register, __NR_sframe_unregister, 0 };
#else
		return false;
#endif
	}
	// Numbers of x86-64 end far below; anything else is no number of a call.
	return calls->register_nr && calls->register_nr < 65536 && calls->unregister_nr &&
	       calls->unregister_nr < 65536 && proves_itself(calls->register_nr) &&
	       proves_itself(calls->unregister_nr);
}

bool is(const char *a, const char *b) { return strlen(a) == strlen(b) && !memcmp(a, b, strlen(b)); }

int wanted_by_environment()
{
	const char *name = config().backend;

	if (is(name, "kernel"))
		return SFRAME_BACKEND_KERNEL;
	if (is(name, "shm"))
		return SFRAME_BACKEND_SHM;
	if (is(name, "none"))
		return SFRAME_BACKEND_NONE;
	return SFRAME_BACKEND_AUTO;
}

// With the lock held. An error leaves the choice open.
int choose(Control *c, int wanted)
{
	KernelCalls calls;
	int chosen = wanted;

	if (wanted == SFRAME_BACKEND_AUTO || wanted == SFRAME_BACKEND_KERNEL) {
		const bool there = find_kernel_calls(&calls);

		if (!there && wanted == SFRAME_BACKEND_KERNEL)
			return -ENOSYS;
		chosen = there ? SFRAME_BACKEND_KERNEL : SFRAME_BACKEND_SHM;
	}
	c->register_nr = (uint32_t)calls.register_nr;
	c->unregister_nr = (uint32_t)calls.unregister_nr;
	c->features = chosen == SFRAME_BACKEND_KERNEL ? calls.features & all_features : all_features;
	release(&c->backend, chosen);
	return chosen;
}

// A kernel that knows version 0 only gets no more than it knows.
int kernel_call(uint32_t nr, const sframe_setup &setup)
{
	const long size = setup.flags || setup.func_base ? SFRAME_SETUP_SIZE_VER1 :
		SFRAME_SETUP_SIZE_VER0;

	return (int)sys::call(nr, sys::arg(&setup), size);
}

} // namespace

int backend_in_use(Control *c)
{
	const int backend = acquire(&c->backend);

	if (backend)
		return backend;
	WriterLock lock(c);
	if (!c->backend) {
		const int chosen = choose(c, wanted_by_environment());

		if (chosen < 0)
			release(&c->backend, chosen);
	}
	return c->backend;
}

int kernel_register(const Control *c, const sframe_setup &setup)
{
	return kernel_call(c->register_nr, setup);
}

int kernel_unregister(const Control *c, const sframe_setup &setup)
{
	return kernel_call(c->unregister_nr, setup);
}

} // namespace sframe

using namespace sframe;

EXPORT int sframe_backend(void)
{
	Control *c = registry_control(true);

	return c ? backend_in_use(c) : -ENOMEM;
}

EXPORT int sframe_set_backend(int backend)
{
	if (backend < SFRAME_BACKEND_AUTO || backend > SFRAME_BACKEND_KERNEL)
		return -EINVAL;
	Control *c = registry_control(true);
	if (!c)
		return -ENOMEM;
	WriterLock lock(c);
	if (c->live)
		return -EBUSY;
	const int chosen = choose(c, backend);
	return chosen < 0 ? chosen : 0;
}

EXPORT uint64_t sframe_backend_features(void)
{
	Control *c = registry_control(true);

	if (!c || backend_in_use(c) < 0)
		return 0;
	return c->features;
}
