// SPDX-License-Identifier: MIT
//
// System calls as the library makes them: raw, returning -errno, never
// touching errno. The library runs in link-map namespaces that have no libc of
// their own and in signal handlers, where libc's wrappers are not to be had.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <asm/unistd.h>

#ifndef __x86_64__
#error "only x86-64 is supported for now"
#endif

namespace sframe::sys {

inline long call(long nr, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0)
{
	long ret;
	register long r10 asm("r10") = d;
	register long r8 asm("r8") = e;
	register long r9 asm("r9") = f;

	asm volatile("syscall"
		     : "=a"(ret)
		     : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
		     : "rcx", "r11", "memory");
	return ret;
}

template <typename T> inline long arg(T value)
{
	if constexpr (__is_enum(T))
		return static_cast<long>(value);
	else
		return (long)value;
}

inline bool failed(long ret) { return ret < 0 && ret >= -4095; }

} // namespace sframe::sys
