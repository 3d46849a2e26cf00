// SPDX-License-Identifier: MIT
//
// Stack traces of a chain across several objects: sframe_backtrace(),
// libunwind's unw_backtrace() and glibc's backtrace(), in the same process, in
// turns, the best of several rounds of each. Warm: the PCs were seen before.
// Cold: each trace sees all PCs for the first time.
#include "result.h"
#include "unwind_chain.h"
#include <sframe/register.h>
#include <sframe/unwind.h>

#include <benchmark/benchmark.h>

#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include <execinfo.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <thread>

namespace {

constexpr int most = 256;
void *frames[most];
uint64_t pcs[most];

int by_sframe() { return sframe_backtrace(pcs, most, nullptr); }
int by_libunwind() { return unw_backtrace(frames, most); }
int by_glibc() { return backtrace(frames, most); }

// What was learned so far is forgotten: ours by a registration that comes and
// goes (rules learned under an earlier generation never match again);
// libunwind's by flushing, and by a new thread (its trace cache is per thread).
void forget_sframe()
{
	static unsigned char empty[28] = { 0xe2, 0xde, 3, 1, 3, 0, 0xf8 };
	static void *text = mmap(nullptr, 4096, PROT_READ | PROT_EXEC,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sframe_setup setup = {};

	setup.sframe_start = reinterpret_cast<uint64_t>(empty);
	setup.sframe_size = sizeof(empty);
	setup.text_start = reinterpret_cast<uint64_t>(text);
	setup.text_size = 4096;
	if (sframe_register(&setup, SFRAME_SETUP_SIZE_VER0) ||
	    sframe_unregister(&setup, SFRAME_SETUP_SIZE_VER0))
		abort();
}

void forget_libunwind() { unw_flush_cache(unw_local_addr_space, 0, 0); }

struct Job {
	int (*trace)();
	void (*measure)(Job *job);
	benchmark::State *state;
	int depth;
	double seconds;
};

// Run @job at the end of a chain of about @depth frames.
void at_depth(Job *job, int depth)
{
	UnwindChain chain = {
		{ unwind_hop_0, unwind_hop_1, unwind_hop_2, unwind_hop_3 },
		[](void *arg) { static_cast<Job *>(arg)->measure(static_cast<Job *>(arg)); }, job
	};

	benchmark::DoNotOptimize(chain.hop[0](&chain, depth, 1));
}

void warm(benchmark::State &state, int (*trace)(), int depth)
{
	Job job = { trace, [](Job *job) {
		for (auto _ : *job->state)
			benchmark::DoNotOptimize(job->depth = job->trace());
	}, &state, 0, 0 };

	trace();
	at_depth(&job, depth);
	state.counters["frames"] = job.depth;
}

// One trace in a new thread, which has traced nothing but itself before: what
// a library sets up for a thread is not the question.
void cold(benchmark::State &state, int (*trace)(), void (*forget)(), int depth)
{
	Job job = { trace, [](Job *job) {
		const auto begin = std::chrono::steady_clock::now();
		job->depth = job->trace();
		job->seconds = std::chrono::duration<double>(
			std::chrono::steady_clock::now() - begin).count();
	}, &state, 0, 0 };

	for (auto _ : state) {
		forget();
		std::thread([&] {
			trace();
			at_depth(&job, depth);
		}).join();
		state.SetIterationTime(job.seconds);
	}
	state.counters["frames"] = job.depth;
}

// The best time per frame of each benchmark, beside the usual output.
class Reporter : public benchmark::ConsoleReporter {
public:
	void ReportRuns(const std::vector<Run> &runs) override
	{
		for (const Run &run : runs) {
			if (run.run_type != Run::RT_Iteration || run.error_occurred)
				continue;
			// CPU time: the machine may be busy. Manual time is "real" only.
			const double ns = (run.run_name.time_type.empty()
						   ? run.GetAdjustedCPUTime()
						   : run.GetAdjustedRealTime()) /
					  run.counters.at("frames");
			auto [at, first] = best.try_emplace(run.run_name.function_name, ns);
			if (!first)
				at->second = std::min(at->second, ns);
		}
		ConsoleReporter::ReportRuns(runs);
	}

	// Per frame, under the name; nothing if either was not run.
	void result(const char *name, const char *ours, const char *peer, const char *theirs) const
	{
		if (best.count(ours) && best.count(theirs))
			bench_result(name, best.at(ours), "ns", peer, best.at(theirs));
	}

	std::map<std::string, double> best;
};

// Many short rounds: the machine is shared, and the best one counts.
void add_warm(const char *name, int (*trace)(), int depth)
{
	benchmark::RegisterBenchmark(name, warm, trace, depth)->MinTime(0.02)->Repetitions(25);
}

void add_cold(const char *name, int (*trace)(), void (*forget)(), int depth)
{
	benchmark::RegisterBenchmark(name, cold, trace, forget, depth)
		->UseManualTime()->Iterations(10)->Repetitions(50);
}

} // namespace

int main(int argc, char **argv)
{
	// Frames below the chain: main() and the benchmark library, or a thread's.
	constexpr int below = 14, below_thread = 7;

	benchmark::Initialize(&argc, argv);
	if (sframe_register_loaded() < 0) {
		fprintf(stderr, "sframe_register_loaded failed\n");
		return 1;
	}
	add_warm("sframe_warm_25", by_sframe, 25 - below);
	add_warm("libunwind_warm_25", by_libunwind, 25 - below);
	add_warm("glibc_warm_25", by_glibc, 25 - below);
	add_warm("sframe_warm_100", by_sframe, 100 - below);
	add_warm("libunwind_warm_100", by_libunwind, 100 - below);
	add_warm("glibc_warm_100", by_glibc, 100 - below);
	add_cold("sframe_cold_25", by_sframe, forget_sframe, 25 - below_thread);
	add_cold("libunwind_cold_25", by_libunwind, forget_libunwind, 25 - below_thread);

	Reporter reporter;
	benchmark::RunSpecifiedBenchmarks(&reporter);
	reporter.result("unwind_warm_25", "sframe_warm_25", "libunwind", "libunwind_warm_25");
	reporter.result("unwind_warm_25_glibc", "sframe_warm_25", "glibc", "glibc_warm_25");
	reporter.result("unwind_warm_100", "sframe_warm_100", "libunwind", "libunwind_warm_100");
	reporter.result("unwind_warm_100_glibc", "sframe_warm_100", "glibc", "glibc_warm_100");
	reporter.result("unwind_cold_25", "sframe_cold_25", "libunwind", "libunwind_cold_25");
	return 0;
}
