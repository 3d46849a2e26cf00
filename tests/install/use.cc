// SPDX-License-Identifier: MIT
// A C++ program of a user: a backtrace where an exception was thrown.
#include <array>
#include <cstdio>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <sframe/register.h>
#include <sframe/unwind.h>

struct Traced : std::runtime_error {
	std::array<uint64_t, 64> pcs;
	int depth;
	sframe_trace trace = {};

	explicit Traced(const char *what) : std::runtime_error(what)
	{
		trace.size = sizeof(trace);
		depth = sframe_backtrace(pcs.data(), pcs.size(), &trace);
	}
};

[[gnu::noinline]] static int fail(int level)
{
	if (level == 0)
		throw Traced("at the bottom");
	return fail(level - 1) + level;
}

int main()
{
	if (const int n = sframe_register_loaded(); n < 1) {
		std::fprintf(stderr, "sframe_register_loaded: %d\n", n);
		return 1;
	}
	try {
		std::printf("%d\n", fail(10));
	} catch (const Traced &error) {
		const std::span frames(error.pcs.data(), error.depth < 0 ? 0 : size_t(error.depth));

		if (frames.size() >= 12 && error.trace.stop == SFRAME_STOP_OUTERMOST)
			return 0;
		std::fprintf(stderr, "%zu frames, stopped: %s\n", frames.size(),
			     sframe_stop_name(int(error.trace.stop)));
	}
	return 1;
}
