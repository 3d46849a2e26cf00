// SPDX-License-Identifier: MIT
//
// What a sanitizer's runtime changes under a test's feet.
#pragma once

#ifdef __has_feature
#define SANITIZED_BY(name) __has_feature(name)
#else
#define SANITIZED_BY(name) 0
#endif

#if defined(__SANITIZE_THREAD__) || SANITIZED_BY(thread_sanitizer)
// Handlers run later than their signal, with the registers of then.
constexpr bool signals_deferred = true;
#else
constexpr bool signals_deferred = false;
#endif

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || \
	SANITIZED_BY(thread_sanitizer) || SANITIZED_BY(address_sanitizer)
// backtrace() is the runtime's, which adds a frame.
constexpr bool backtrace_intercepted = true;
#else
constexpr bool backtrace_intercepted = false;
#endif
