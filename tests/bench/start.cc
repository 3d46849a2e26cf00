// SPDX-License-Identifier: MIT
//
// start_python: starting Debian's python3 with 20 and more extension modules
// under the auditor, its cache warm, against starting it without. plt_call: a
// call through the PLT of a program, with and without.
//
// With and without alternate, so that what else the machine does hits both;
// medians are compared.
#include <algorithm>
#include <benchmark/benchmark.h>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>
#include "result.h"

extern "C" int answer(void);	// in a library of its own

namespace {

using Clock = std::chrono::steady_clock;

const char *auditor;
std::vector<double> wall[2], cpu[2];	// milliseconds: without, with
std::vector<double> call[2];		// nanoseconds

double median(std::vector<double> values)
{
	if (values.empty())
		return 0;
	std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
			 values.end());
	return values[values.size() / 2];
}

// The child's standard output, if wanted.
std::string spawn(const std::vector<std::string> &argv, bool audited, struct rusage *usage)
{
	std::vector<char *> args;
	std::string out;
	int pipe_fd[2];

	for (const std::string &arg : argv)
		args.push_back(const_cast<char *>(arg.c_str()));
	args.push_back(nullptr);
	if (pipe(pipe_fd) < 0)
		return out;
	const pid_t pid = fork();
	if (pid == 0) {
		dup2(pipe_fd[1], 1);
		close(pipe_fd[0]);
		close(pipe_fd[1]);
		if (audited)
			setenv("LD_AUDIT", auditor, 1);
		execv(args[0], args.data());
		_exit(127);
	}
	close(pipe_fd[1]);
	char buffer[256];
	for (ssize_t n; (n = read(pipe_fd[0], buffer, sizeof(buffer))) > 0;)
		out.append(buffer, static_cast<size_t>(n));
	close(pipe_fd[0]);
	int status;
	wait4(pid, &status, 0, usage);
	return status == 0 ? out : "";
}

double milliseconds(const struct timeval &t)
{
	return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) / 1e3;
}

void start_python(benchmark::State &state)
{
	const std::vector<std::string> python = {
		"/usr/bin/python3", "-W", "ignore", "-c",
		"import sqlite3, ssl, hashlib, json, zlib, ctypes, decimal, lzma, bz2, asyncio, "
		"mmap, multiprocessing, resource, termios, xml.parsers.expat, unicodedata, array, "
		"audioop, crypt, _lsprof, _queue, _contextvars, _uuid, _elementtree; print(1)" };

	spawn(python, true, nullptr);	// fills the cache
	for (auto _ : state)
		for (int audited = 0; audited < 2; audited++) {
			struct rusage usage = {};
			const auto begin = Clock::now();

			if (spawn(python, audited, &usage).empty()) {
				state.SkipWithError("python3 failed");
				return;
			}
			wall[audited].push_back(
				std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
			cpu[audited].push_back(milliseconds(usage.ru_utime) +
					       milliseconds(usage.ru_stime));
		}
}

void plt_call(benchmark::State &state)
{
	const std::vector<std::string> self = { "/proc/self/exe", "--calls" };

	for (auto _ : state)
		for (int audited = 0; audited < 2; audited++)
			call[audited].push_back(atof(spawn(self, audited, nullptr).c_str()));
}

int make_calls()
{
	constexpr int kCalls = 50'000'000;
	int sum = 0;
	const auto begin = Clock::now();

	for (int i = 0; i < kCalls; i++)
		sum += answer();
	const std::chrono::duration<double, std::nano> took = Clock::now() - begin;
	printf("%.4f\n", took.count() / kCalls);
	return sum == 42;
}

BENCHMARK(start_python)->Unit(benchmark::kMillisecond)->Iterations(41);
BENCHMARK(plt_call)->Unit(benchmark::kMillisecond)->Iterations(11);

} // namespace

int main(int argc, char **argv)
{
	char directory[] = "/tmp/sframe-bench.XXXXXX";

	if (argc > 1 && !strcmp(argv[1], "--calls"))
		return make_calls();
	auditor = getenv("AUDITOR");
	if (!auditor || !mkdtemp(directory))
		return 1;
	setenv("XDG_CACHE_HOME", directory, 1);
	benchmark::Initialize(&argc, argv);
	benchmark::RunSpecifiedBenchmarks();
	bench_result("start_python", median(wall[1]), "ms", "without the auditor", median(wall[0]));
	bench_result("start_python_cpu", median(cpu[1]), "ms", "without the auditor",
		     median(cpu[0]));
	bench_result("plt_call", *std::min_element(call[1].begin(), call[1].end()), "ns",
		     "without the auditor", *std::min_element(call[0].begin(), call[0].end()));
	std::filesystem::remove_all(directory);
}
