// SPDX-License-Identifier: MIT
#include "config.h"

#include <cstring>
#include <sys/mman.h>
#include "sys.h"

namespace sframe {

namespace {

// One anonymous mapping holds the structure and the strings; it is published
// whole by a compare-and-swap, so that no lock is needed and none can be left
// behind by a fork.
constexpr size_t kMaxValue = 4096;

struct Storage {
	Config config;
	char text[5][kMaxValue];
};

const Config *published;
FindVariable find_variable;
bool source_secure;

// What there is when not even one mapping can be had.
const Config kBare = { "", "", "", "/dev/shm", "/sys/kernel/sframe", false, true };

bool starts_with(const char *text, const char *prefix, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (text[i] != prefix[i])
			return false;
	return true;
}

const char *keep(Storage *storage, int slot, const char *name, const char *fallback)
{
	const char *value = find_variable && !source_secure ? find_variable(name) : nullptr;
	const size_t length = value ? strlen(value) : 0;

	if (length == 0 || length >= kMaxValue)
		return fallback;
	memcpy(storage->text[slot], value, length + 1);
	return storage->text[slot];
}

const Config *read_all()
{
	if (!find_variable && config_from_libc)
		config_from_libc();
	const long at = sys::call(__NR_mmap, 0, sizeof(Storage), PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys::failed(at))
		return &kBare;

	auto *storage = reinterpret_cast<Storage *>(at);
	Config &c = storage->config;
	c.backend = keep(storage, 0, "SFRAME_BACKEND", "");
	c.cache_home = keep(storage, 1, "XDG_CACHE_HOME", "");
	c.home = keep(storage, 2, "HOME", "");
	c.shm_dir = keep(storage, 3, "SFRAME_SHM_DIR", "/dev/shm");
	c.sysfs_root = keep(storage, 4, "SFRAME_SYSFS_ROOT", "/sys/kernel/sframe");
	c.secure = source_secure;

	const char *debug = find_variable && !source_secure ? find_variable("SFRAME_DEBUG") : nullptr;
	c.debug = debug && *debug && !(debug[0] == '0' && debug[1] == 0);
	return &c;
}

} // namespace

const Config &config()
{
	const Config *seen = __atomic_load_n(&published, __ATOMIC_ACQUIRE);

	if (__builtin_expect(seen != nullptr, 1))
		return *seen;
	const Config *made = read_all();
	if (__atomic_compare_exchange_n(&published, &seen, made, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return *made;
	if (made != &kBare)
		sys::call(__NR_munmap, sys::arg(made), sizeof(Storage));
	return *seen;
}

void config_source(FindVariable find, bool secure)
{
	find_variable = find;
	source_secure = secure;
}

const char *environment_find(const char *const *envp, const char *name)
{
	const size_t length = strlen(name);

	for (; envp && *envp; envp++)
		if (starts_with(*envp, name, length) && (*envp)[length] == '=')
			return *envp + length + 1;
	return nullptr;
}

void config_reset()
{
	__atomic_store_n(&published, nullptr, __ATOMIC_RELEASE);
}

} // namespace sframe
