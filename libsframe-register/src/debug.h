// SPDX-License-Identifier: MIT
//
// What the library says when SFRAME_DEBUG asks for it: one line per event on
// stderr, written by one write(2). Silent otherwise: it is a guest.
#pragma once

#include "config.h"
#include "sys.h"
#include "text.h"

namespace sframe {

// "libsframe[PID]: WHAT PATH: VALUE", value being a count or -errno.
inline void debug_event(const char *what, const char *path, long value)
{
	char line[512];

	if (!config().debug)
		return;
	Text text(line, sizeof(line) - 1);
	text.str("libsframe[").dec(static_cast<uint64_t>(sys::call(__NR_getpid))).str("]: ");
	text.str(what).str(" ").str(path && *path ? path : "(main)").str(": ").num(value);
	line[text.size()] = '\n';
	sys::call(__NR_write, 2, sys::arg(line), static_cast<long>(text.size() + 1));
}

} // namespace sframe
