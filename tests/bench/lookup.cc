// SPDX-License-Identifier: MIT
//
// A lookup among 100,000 ranges while a writer churns, against what one would
// write otherwise: std::map under std::shared_mutex, and a sorted vector under
// a sequence lock (whose writer moves half of the vector at every change, and
// whose readers must not be signal handlers of the writer).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "registry.h"
#include "result.h"
#include "sframe_format.h"

namespace {

constexpr uint64_t base = 0x10000000, stride = 4096, range_size = 3072, ranges = 100'000;
constexpr int batch = 2000;	// lookups
constexpr auto pause = std::chrono::microseconds(50);

struct Value {
	uint64_t start, end, id;
	unsigned char section[sizeof(sframe_section)];
};

std::vector<unsigned char> empty_section()
{
	std::vector<unsigned char> bytes(SFRAME_HEADER_SIZE);
	sframe_header header = {};

	header.magic = SFRAME_MAGIC;
	header.version = SFRAME_VERSION_3;
	header.flags = SFRAME_F_FDE_SORTED;
	header.abi_arch = SFRAME_ABI_AMD64_ENDIAN_LITTLE;
	header.cfa_fixed_ra_offset = -8;
	__builtin_memcpy(bytes.data(), &header, sizeof(header));
	return bytes;
}

struct Registry {
	std::vector<unsigned char> section = empty_section();
	sframe::Metadata meta;

	Registry() { meta.executable = true; }
	void add(uint64_t at, uint64_t size)
	{
		sframe::registry_add({ (uint64_t)section.data(), section.size(), at, size, 0, 0 }, meta);
	}
	void remove(uint64_t at, uint64_t size)
	{
		sframe::registry_remove({ (uint64_t)section.data(), section.size(), at, size, 0, 0 });
	}
	bool find(uint64_t pc)
	{
		sframe::Covering covering;

		if (sframe::registry_lookup(pc, &covering))
			return false;
		benchmark::DoNotOptimize(covering);
		return true;
	}
};

struct LockedMap {
	std::map<uint64_t, Value> map;
	std::shared_mutex mutex;

	void add(uint64_t at, uint64_t size)
	{
		std::unique_lock lock(mutex);
		map[at] = { at, at + size, at, {} };
	}
	void remove(uint64_t at, uint64_t)
	{
		std::unique_lock lock(mutex);
		map.erase(at);
	}
	bool find(uint64_t pc)
	{
		std::shared_lock lock(mutex);
		auto it = map.upper_bound(pc);
		if (it == map.begin() || (--it)->second.end <= pc)
			return false;
		Value value = it->second;
		benchmark::DoNotOptimize(value);
		return true;
	}
};

struct SequencedVector {
	std::vector<Value> sorted;
	std::atomic<uint64_t> sequence{ 0 };

	SequencedVector() { sorted.reserve(ranges + 2); }
	auto place(uint64_t at)
	{
		return std::lower_bound(sorted.begin(), sorted.end(), at,
					[](const Value &v, uint64_t a) { return v.start < a; });
	}
	void add(uint64_t at, uint64_t size)
	{
		sequence++;
		sorted.insert(place(at), { at, at + size, at, {} });
		sequence++;
	}
	void remove(uint64_t at, uint64_t)
	{
		sequence++;
		sorted.erase(place(at));
		sequence++;
	}
	bool find(uint64_t pc)
	{
		for (;;) {
			const uint64_t before = sequence.load(std::memory_order_acquire);
			if (before & 1)
				continue;
			auto it = place(pc + 1);
			Value value = it == sorted.begin() ? Value{} : *--it;
			std::atomic_thread_fence(std::memory_order_acquire);
			if (sequence.load(std::memory_order_relaxed) != before)
				continue;
			benchmark::DoNotOptimize(value);
			return pc < value.end;
		}
	}
};

template <typename Index> double measure(benchmark::State &state, bool churn)
{
	static Index index;
	static std::vector<uint64_t> pcs;
	std::atomic<bool> stop{ false };

	if (pcs.empty()) {
		std::mt19937_64 random(1);
		for (uint64_t i = 0; i < ranges; i++)
			index.add(base + i * stride, range_size);
		for (int i = 0; i < 1 << 16; i++)
			pcs.push_back(base + random() % ranges * stride + random() % range_size);
	}
	std::thread writer([&] {
		for (uint64_t n = 0; churn && !stop; n++) {
			const uint64_t at = base + n * 1579 % ranges * stride + range_size;
			index.add(at, 512);
			std::this_thread::sleep_for(pause);
			index.remove(at, 512);
		}
	});
	// By batches, and the median of them: a preemption costs one batch.
	std::vector<double> batches;
	uint64_t n = 0, missed = 0;
	for (auto _ : state) {
		const auto begin = std::chrono::steady_clock::now();
		for (int i = 0; i < batch; i++)
			missed += !index.find(pcs[n++ & 0xffff]);
		const std::chrono::duration<double, std::nano> took =
			std::chrono::steady_clock::now() - begin;
		batches.push_back(took.count() / batch);
	}
	stop = true;
	writer.join();
	if (missed)
		state.SkipWithError("a range that is there was not found");
	std::nth_element(batches.begin(), batches.begin() + batches.size() / 2, batches.end());
	state.counters["ns_per_lookup"] = batches[batches.size() / 2];
	return batches[batches.size() / 2];
}

double figure[6];

template <typename Index, int slot, bool churn> void run(benchmark::State &state)
{
	const double ns = measure<Index>(state, churn);

	if (figure[slot] == 0 || ns < figure[slot])
		figure[slot] = ns;
}

BENCHMARK(run<Registry, 0, true>)->Name("lookup_100k")->Repetitions(5)->Iterations(1000);
BENCHMARK(run<LockedMap, 1, true>)->Name("std_map_shared_mutex")->Repetitions(3)->Iterations(300);
BENCHMARK(run<SequencedVector, 2, true>)->Name("sorted_vector_seqlock")->Repetitions(3)->Iterations(300);
BENCHMARK(run<Registry, 3, false>)->Name("lookup_100k_at_rest")->Repetitions(3)->Iterations(1000);
BENCHMARK(run<LockedMap, 4, false>)->Name("std_map_shared_mutex_at_rest")->Repetitions(3)->Iterations(300);

} // namespace

int main(int argc, char **argv)
{
	benchmark::Initialize(&argc, argv);
	benchmark::RunSpecifiedBenchmarks();
	bench_result("lookup_100k", figure[0], "ns", "std::map, shared_mutex", figure[1]);
	bench_result("lookup_100k_vector", figure[0], "ns", "sorted vector, seqlock", figure[2]);
	bench_result("lookup_100k_at_rest", figure[3], "ns", "std::map, shared_mutex", figure[4]);
	sframe::registry_exit();
}
