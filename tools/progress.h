// SPDX-License-Identifier: MIT
//
// How far a long job is: a bar on a terminal, silence otherwise, and lines of
// text that do not tear the bar apart.
//
// Example:
//
//	Progress progress("synth", files.size());
//	for (auto &file : files) {
//		if (!work(file))
//			progress.line("sframectl: %s: damaged", file.c_str());
//		progress.step();
//	}
//	progress.finish();
//
// All calls are thread-safe.
#pragma once

#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>

class Progress {
public:
	// Draws on stderr if that is a terminal (or if asked to: tests).
	Progress(std::string what, uint64_t total);
	Progress(std::string what, uint64_t total, FILE *out, bool terminal);
	~Progress() { finish(); }
	Progress(const Progress &) = delete;
	Progress &operator=(const Progress &) = delete;

	void step(uint64_t by = 1);
	// A line on stderr (newline added), above the bar.
	void line(const char *format, ...) __attribute__((format(printf, 2, 3)));
	// Takes the bar away. Nothing is drawn afterwards.
	void finish();

private:
	void draw();
	void erase();

	std::mutex mutex_;
	const std::string what_;
	const uint64_t total_;
	FILE *const out_;
	bool terminal_;
	uint64_t done_ = 0;
	int drawn_ = -1;	// per mille on screen; -1: no bar
};
