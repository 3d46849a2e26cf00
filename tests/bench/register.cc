// SPDX-License-Identifier: MIT
//
// register_cached: registering a loaded object (libc) by its cached section.
// Peers: synthesizing the section, and libgcc's __register_frame() with the
// first lookup, which is when libgcc sorts.
#include <algorithm>
#include <benchmark/benchmark.h>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <link.h>
#include <string>
#include <sframe/register.h>
#include <sframe/synth.h>
#include "config.h"
#include "registry.h"
#include "result.h"

extern "C" {
void __register_frame(void *);
void __deregister_frame(void *);
struct dwarf_eh_bases {
	void *tbase, *dbase, *func;
};
const void *_Unwind_Find_FDE(void *pc, struct dwarf_eh_bases *bases);
}

namespace {

std::string cache_home;
sframe_object object = {};
double best[3] = { 1e30, 1e30, 1e30 };	// microseconds

const char *find_variable(const char *name)
{
	return std::string(name) == "XDG_CACHE_HOME" ? cache_home.c_str() : nullptr;
}

int find_libc(struct dl_phdr_info *info, size_t, void *)
{
	if (!std::string(info->dlpi_name).ends_with("/libc.so.6"))
		return 0;
	object.size = sizeof(object);
	object.load_bias = info->dlpi_addr;
	object.phdr = info->dlpi_phdr;
	object.phnum = info->dlpi_phnum;
	object.path = info->dlpi_name;
	return 1;
}

using Clock = std::chrono::steady_clock;

void note(benchmark::State &state, int slot, Clock::time_point begin)
{
	const std::chrono::duration<double> took = Clock::now() - begin;

	state.SetIterationTime(took.count());
	best[slot] = std::min(best[slot], took.count() * 1e6);
}

void register_object(benchmark::State &state, int slot, uint32_t flags)
{
	object.flags = flags;
	for (auto _ : state) {
		const auto begin = Clock::now();
		const int n = sframe_register_object(&object, nullptr);
		note(state, slot, begin);
		if (n <= 0) {
			state.SkipWithError("libc was not registered");
			return;
		}
		sframe_unregister_object(&object);
	}
}

void register_cached(benchmark::State &state) { register_object(state, 0, 0); }
void synthesize(benchmark::State &state) { register_object(state, 1, SFRAME_OBJECT_NO_CACHE); }

void libgcc(benchmark::State &state)
{
	sframe_image image;

	if (sframe_image_from_memory(&image, object.load_bias, object.phdr, object.phnum))
		return;
	auto *frames = reinterpret_cast<void *>(object.load_bias + image.eh_frame);
	for (auto _ : state) {
		struct dwarf_eh_bases bases;
		const auto begin = Clock::now();
		__register_frame(frames);
		const void *fde = _Unwind_Find_FDE(reinterpret_cast<void *>(abort), &bases);
		note(state, 2, begin);
		if (!fde)
			state.SkipWithError("no FDE");
		__deregister_frame(frames);
	}
}

BENCHMARK(register_cached)->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(2000);
BENCHMARK(synthesize)->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(50);
BENCHMARK(libgcc)->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(200);

} // namespace

int main(int argc, char **argv)
{
	char directory[] = "/tmp/sframe-bench.XXXXXX";

	if (!mkdtemp(directory))
		return 1;
	cache_home = directory;
	sframe::config_source(find_variable, false);
	dl_iterate_phdr(find_libc, nullptr);
	sframe_register_object(&object, nullptr);	// fills the cache
	sframe_unregister_object(&object);
	benchmark::Initialize(&argc, argv);
	benchmark::RunSpecifiedBenchmarks();
	bench_result("register_cached", best[0], "us", "synthesize", best[1]);
	bench_result("register_cached_libgcc", best[0], "us", "__register_frame and first lookup",
		     best[2]);
	std::filesystem::remove_all(directory);
	sframe::registry_exit();
}
