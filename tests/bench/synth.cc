// SPDX-License-Identifier: MIT
//
// How long a section takes to make, beside what libdw takes to compute the same
// rows, and how long a lookup in it takes, beside one in a section with an entry
// for each function.
#include <benchmark/benchmark.h>
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <random>
#include <vector>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <libelf.h>
#include <unistd.h>
#include <core.h>
#include <synth.h>
#include "../synth/mapped_file.h"
#include "result.h"

namespace {

constexpr const char *kLibc = "/lib/x86_64-linux-gnu/libc.so.6";
constexpr const char *kLlvm = "/lib/x86_64-linux-gnu/libLLVM-14.so.1";

// CPU time of this thread: what else runs on the machine counts less.
double now_ms()
{
	timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

bool synthesize(const sframe_image &image, sframe_synth *synth,
		const sframe::EncodeOptions &options = {})
{
	*synth = {};
	synth->size = sizeof(*synth);
	return sframe::Synthesizer(image, synth->stats).run(options, synth) == 0;
}

// The frame at each row of each FDE, as libdw computes it.
size_t libdw_rows(Elf *elf, Dwarf_CFI *cfi)
{
	Elf_Data *data = nullptr;
	Elf_Scn *scn = nullptr;
	GElf_Shdr shdr;
	size_t names, rows = 0;

	if (elf_getshdrstrndx(elf, &names))
		return 0;
	while ((scn = elf_nextscn(elf, scn)))
		if (gelf_getshdr(scn, &shdr) && !strcmp(elf_strptr(elf, names, shdr.sh_name), ".eh_frame")) {
			data = elf_rawdata(scn, nullptr);
			break;
		}
	if (!data)
		return 0;
	for (Dwarf_Off at = 0, next; ; at = next) {
		Dwarf_CFI_Entry entry;
		const int more = dwarf_next_cfi(reinterpret_cast<unsigned char *>(elf_getident(elf, nullptr)),
						data, true, at, &next, &entry);

		if (more)
			return rows;
		if (dwarf_cfi_cie_p(&entry))
			continue;
		// pcrel sdata4, as all of these files have it.
		int32_t start;
		uint32_t size;

		memcpy(&start, entry.fde.start, 4);
		memcpy(&size, entry.fde.start + 4, 4);
		Dwarf_Addr pc = shdr.sh_addr + static_cast<Dwarf_Addr>(
			entry.fde.start - static_cast<unsigned char *>(data->d_buf)) +
			static_cast<Dwarf_Addr>(int64_t(start));
		const Dwarf_Addr end = pc + size;

		while (pc < end) {
			Dwarf_Frame *frame;
			Dwarf_Addr row_end;

			if (dwarf_cfi_addrframe(cfi, pc, &frame))
				break;
			dwarf_frame_info(frame, nullptr, &row_end, nullptr);
			free(frame);
			rows++;
			if (row_end <= pc)
				break;
			pc = row_end;
		}
	}
}

void bench_synth(benchmark::State &state, const char *path, const char *name)
{
	MappedFile file(path);
	sframe_image image;
	sframe_synth synth;
	double best = 1e9, libdw = 1e9;

	if (!file || file.image(&image)) {
		state.SkipWithError("not installed");
		return;
	}
	elf_version(EV_CURRENT);
	for (auto _ : state) {
		const double start = now_ms();

		if (!synthesize(image, &synth))
			state.SkipWithError("synthesis failed");
		best = std::min(best, now_ms() - start);
		sframe_synth_release(&synth);
	}
	// A fresh handle each time: libdw keeps what it has parsed.
	for (int i = 0; i < 2; i++) {
		const int fd = open(path, O_RDONLY | O_CLOEXEC);
		Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, nullptr);
		const double start = now_ms();
		Dwarf_CFI *cfi = dwarf_getcfi_elf(elf);

		if (!cfi || !libdw_rows(elf, cfi))
			state.SkipWithError("libdw finds no CFI");
		libdw = std::min(libdw, now_ms() - start);
		elf_end(elf);
		close(fd);
	}
	bench_result(name, best, "ms", "libdw computing all frames", libdw);
	state.counters["memory_ratio"] = static_cast<double>(synth.stats.peak_memory) /
		static_cast<double>(synth.stats.eh_frame_size);
}

BENCHMARK_CAPTURE(bench_synth, libLLVM, kLlvm, "synth_libllvm")->Iterations(10);
BENCHMARK_CAPTURE(bench_synth, libc, kLibc, "synth_libc")->Iterations(50);

// Nanoseconds for a lookup of random covered addresses.
double lookup_ns(const sframe_synth &synth, const std::vector<uint64_t> &pcs)
{
	sframe_section section;
	uint64_t sum = 0;

	if (sframe_section_parse(&section, reinterpret_cast<uint64_t>(synth.section), synth.section_size,
				 0, SFRAME_PARSE_FUNC_BASE, nullptr))
		return 0;
	double best = 1e9;

	for (int round = 0; round < 5; round++) {
		const double start = now_ms();

		for (uint64_t pc : pcs) {
			sframe_row row;

			if (sframe_lookup(&section, pc, &row, nullptr) == SFRAME_OK)
				sum += static_cast<uint64_t>(row.cfa.offset);
		}
		best = std::min(best, now_ms() - start);
	}
	benchmark::DoNotOptimize(sum);
	return best * 1e6 / static_cast<double>(pcs.size());
}

void bench_lookup(benchmark::State &state, const char *path, const char *name)
{
	MappedFile file(path);
	sframe_image image;
	sframe_synth packed, plain;
	std::mt19937_64 random(1);
	std::vector<uint64_t> pcs;

	if (!file || file.image(&image) || !synthesize(image, &packed) ||
	    !synthesize(image, &plain, {.pack = false})) {
		state.SkipWithError("not installed");
		return;
	}
	for (int i = 0; i < 200000; i++)
		for (uint32_t s = 0; s < image.segment_count; s++)
			if (image.segment[s].flags & PF_X)
				pcs.push_back(image.segment[s].vaddr + random() % image.segment[s].size);
	double ns = 0, peer = 0;

	for (auto _ : state) {
		ns = lookup_ns(packed, pcs);
		peer = lookup_ns(plain, pcs);
	}
	bench_result(name, ns, "ns", "an entry for each function", peer);
	sframe_synth_release(&packed);
	sframe_synth_release(&plain);
}

BENCHMARK_CAPTURE(bench_lookup, libLLVM, kLlvm, "lookup_packed_libllvm")->Iterations(1);
BENCHMARK_CAPTURE(bench_lookup, libc, kLibc, "lookup_packed_libc")->Iterations(1);

} // namespace

BENCHMARK_MAIN();
