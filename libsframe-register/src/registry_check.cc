// SPDX-License-Identifier: MIT
//
// Is what a program asks for sound? Answers as the system call would, without
// faulting on what is not there.
//
// Readability is asked of the kernel by calls that every seccomp profile lets
// pass: rt_sigprocmask() with an operation that does not exist copies eight
// bytes (EFAULT) before it refuses (EINVAL); msync(MS_ASYNC) does nothing but
// report holes in a range, at a cost by mappings and not by pages. So a large
// section is not paged in by being registered. What is unmapped after the
// check is the caller's fault, as it is with any pointer.
#include "process.h"
#include "registry_state.h"
#include "sys.h"

#include <sys/mman.h>

namespace sframe {

namespace {

constexpr uint64_t page = 4096;
constexpr long no_such_operation = 0x5f5f;

bool readable_word(uint64_t address)
{
	return sys::call(__NR_rt_sigprocmask, no_such_operation, (long)address, 0, 8) != -EFAULT;
}

// The first and last bytes are readable, and there is no hole between them.
bool readable(uint64_t start, uint64_t size)
{
	const uint64_t first = start & ~(page - 1);
	const uint64_t end = (start + size + page - 1) & ~(page - 1);

	return readable_word(start) && readable_word(start + size - 8) &&
	       !sys::failed(sys::call(__NR_msync, (long)first, (long)(end - first), MS_ASYNC));
}

bool wraps(uint64_t start, uint64_t size) { return start + size < start; }

int status_error(int status)
{
	if (status == SFRAME_OK)
		return 0;
	return status == SFRAME_UNREADABLE ? -EFAULT : -EINVAL;
}

bool version_supported(const sframe_section &section)
{
	return section.abi == SFRAME_ABI_AMD64_ENDIAN_LITTLE &&
	       (section.version == SFRAME_VERSION_3 ||
		(section.flags & SFRAME_F_FDE_FUNC_START_PCREL));
}

} // namespace

int setup_copy(const sframe_setup *user, size_t size, sframe_setup *out)
{
	const uint64_t at = (uint64_t)user;

	if (size < SFRAME_SETUP_SIZE_VER0)
		return -EINVAL;
	if (size > page)
		return -E2BIG;
	if (wraps(at, size) || !readable_word(at) || !readable_word(at + size - 8))
		return -EFAULT;
	*out = {};
	__builtin_memcpy(out, user, size < sizeof(*out) ? size : sizeof(*out));
	for (size_t i = sizeof(*out); i < size; i++)
		if (((const unsigned char *)user)[i])
			return -E2BIG;
	return 0;
}

int setup_check(const sframe_setup &setup, bool executable, sframe_section *section)
{
	unsigned int options = 0;

	if (setup.flags & ~(SFRAME_GROWABLE | SFRAME_REPLACE | SFRAME_FUNC_BASE))
		return -EINVAL;
	if (setup.func_base && !(setup.flags & SFRAME_FUNC_BASE))
		return -EINVAL;
	if (setup.text_size == 0 || wraps(setup.text_start, setup.text_size) ||
	    wraps(setup.sframe_start, setup.sframe_size) ||
	    setup.sframe_size < SFRAME_HEADER_SIZE)
		return -EINVAL;
	if (!readable(setup.sframe_start, setup.sframe_size))
		return -EFAULT;
	if (setup.flags & SFRAME_GROWABLE)
		options |= SFRAME_PARSE_GROWABLE;
	if (setup.flags & SFRAME_FUNC_BASE)
		options |= SFRAME_PARSE_FUNC_BASE;
	const int err = status_error(sframe_section_parse(section, setup.sframe_start,
							  setup.sframe_size, setup.func_base,
							  options, nullptr));
	if (err)
		return err;
	if (!version_supported(*section))
		return -EINVAL;
	// Where /proc does not tell, the caller is believed.
	if (!executable && maps_executable(setup.text_start,
					   setup.text_start + setup.text_size) == 0)
		return -EINVAL;
	return 0;
}

} // namespace sframe
