// SPDX-License-Identifier: MIT
#include "progress.h"

#include <algorithm>
#include <cinttypes>
#include <cstdarg>
#include <unistd.h>

namespace {
constexpr int WIDTH = 32;
}

Progress::Progress(std::string what, uint64_t total)
	: Progress(std::move(what), total, stderr, isatty(STDERR_FILENO))
{
}

Progress::Progress(std::string what, uint64_t total, FILE *out, bool terminal)
	: what_(std::move(what)), total_(total), out_(out), terminal_(terminal)
{
}

void Progress::step(uint64_t by)
{
	const std::lock_guard lock(mutex_);

	done_ += by;
	draw();
}

void Progress::line(const char *format, ...)
{
	const std::lock_guard lock(mutex_);
	va_list ap;

	erase();
	va_start(ap, format);
	vfprintf(out_, format, ap);
	va_end(ap);
	fputc('\n', out_);
	draw();
}

void Progress::finish()
{
	const std::lock_guard lock(mutex_);

	erase();
	terminal_ = false;
}

// Redrawn only when the picture changes: a bar must not cost more than the work.
void Progress::draw()
{
	if (!terminal_ || !total_)
		return;
	const uint64_t done = std::min(done_, total_);
	const int permille = static_cast<int>(done * 1000 / total_);

	if (permille == drawn_)
		return;
	drawn_ = permille;
	const int filled = permille * WIDTH / 1000;
	fprintf(out_, "\r%s [%.*s%*s] %" PRIu64 "/%" PRIu64, what_.c_str(), filled,
		"################################", WIDTH - filled, "", done, total_);
	fflush(out_);
}

void Progress::erase()
{
	if (drawn_ < 0)
		return;
	fputs("\r\033[K", out_);
	fflush(out_);
	drawn_ = -1;
}
