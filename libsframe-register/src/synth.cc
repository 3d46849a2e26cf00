// SPDX-License-Identifier: MIT
//
// The way from .eh_frame to a section: read the entries, make rows of them,
// put the functions in order, write.
#include <sframe/synth.h>

#include <algorithm>
#include <cerrno>
#include "arena.h"
#include "eh_frame.h"
#include "encode.h"
#include "image.h"
#include "rows.h"
#include "synth.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace sframe {

// Memory in proportion to the input: real objects take less than three times
// their .eh_frame; rows that all differ, as no compiler makes them, take more.
static size_t memory_limit(uint64_t eh_frame_size)
{
	return (size_t(4) << 20) + static_cast<size_t>(eh_frame_size) * 24;
}

Synthesizer::Synthesizer(const sframe_image &image, sframe_synth_stats &stats)
	: image_(image), stats_(stats), eh_frame_(image, meter_), store_(meter_), functions_(meter_)
{
	meter_.limit = memory_limit(eh_frame_.size());
}

bool Synthesizer::add(const Fde &fde)
{
	uint32_t list;

	if (fde.size == 0) {
		stats_.empty_fdes++;
		return true;
	}
	if (fde.size > UINT32_MAX || !image_is_text(image_, fde.start, fde.size)) {
		stats_.uncovered[SFRAME_UNCOVERED_BAD_RANGE]++;
		return true;
	}
	return store_.add(eh_frame_, fde, &list) &&
		functions_.push({fde.start, static_cast<uint32_t>(fde.size), list});
}

int Synthesizer::read()
{
	Fde fde;

	for (;;) {
		switch (eh_frame_.next(&fde)) {
		case Entry::kEnd:
			stats_.eh_frame_size = eh_frame_.extent() + image_.eh_frame_hdr_size;
			store_.finish();
			return eh_frame_.cies().empty() ? -ENOEXEC : 0;
		case Entry::kCie:
			break;
		case Entry::kBadFde:
			stats_.uncovered[SFRAME_UNCOVERED_BAD_CFI]++;
			break;
		case Entry::kNoMemory:
			return -ENOMEM;
		case Entry::kFde:
			if (!add(fde))
				return -ENOMEM;
			break;
		}
	}
}

// Sorts by start, stably and in linear time.
bool Synthesizer::sort()
{
	// Small: callers' stacks may be.
	static constexpr unsigned int kBits = 8, kBuckets = 1u << kBits;
	auto before = [](const Function &a, const Function &b) { return a.start < b.start; };
	uint64_t least = UINT64_MAX, most = 0;

	if (std::is_sorted(functions_.begin(), functions_.end(), before))
		return true;
	for (const Function &f : functions_) {
		least = std::min(least, f.start);
		most = std::max(most, f.start);
	}
	Array<Function> other(meter_);
	uint32_t at[kBuckets];

	if (!other.resize(functions_.size()))
		return false;
	for (unsigned int shift = 0; shift < 64 && (most - least) >> shift; shift += kBits) {
		auto bucket = [&](const Function &f) {
			return ((f.start - least) >> shift) % kBuckets;
		};
		memset(at, 0, sizeof(at));
		for (const Function &f : functions_)
			at[bucket(f)]++;
		for (uint32_t i = 0, sum = 0; i < kBuckets; i++) {
			const uint32_t count = at[i];

			at[i] = sum;
			sum += count;
		}
		for (const Function &f : functions_)
			other[at[bucket(f)]++] = f;
		functions_.swap(other);
	}
	return true;
}

// Gives each byte to one function. Of those that begin together the longest
// stays; one that reaches into the next is cut there, as the search that other
// unwinders do (the last start at or before the PC) has it.
void Synthesizer::resolve_overlaps()
{
	uint64_t reach = 0, end = 0;	// claimed by any, and by the last one kept
	size_t kept = 0;
	auto lost = [&](uint64_t until) {
		const uint64_t bytes = until > end ? until - end : 0;

		stats_.uncovered_bytes[SFRAME_UNCOVERED_OVERLAP] += bytes;
		stats_.cfi_bytes += bytes;
	};

	for (size_t i = 0; i < functions_.size(); i++) {
		Function f = functions_[i];

		if (f.start < reach)
			stats_.uncovered[SFRAME_UNCOVERED_OVERLAP]++;
		for (; i + 1 < functions_.size() && functions_[i + 1].start == f.start; i++) {
			stats_.uncovered[SFRAME_UNCOVERED_OVERLAP]++;
			if (functions_[i + 1].size > f.size)
				f = functions_[i + 1];
		}
		if (kept && f.start < end) {
			Function &last = functions_[kept - 1];

			stats_.cfi_bytes -= end - f.start;
			last.size = static_cast<uint32_t>(f.start - last.start);
			end = f.start;
		}
		lost(std::min(reach, f.start));
		end = f.start + f.size;
		reach = std::max(reach, end);
		stats_.cfi_bytes += f.size;
		functions_[kept++] = f;
	}
	lost(reach);
	functions_.truncate(kept);
	stats_.functions = static_cast<uint32_t>(kept);
}

void Synthesizer::count_uses()
{
	for (const Function &f : functions_)
		store_.list(f.list).uses++;
}

int Synthesizer::encode(const EncodeOptions &options, sframe_synth *synth)
{
	Encoder encoder(image_, store_, meter_, stats_, options);

	static constexpr size_t kAhead = 8;

	for (size_t i = 0; i < functions_.size(); i++) {
		if (i + kAhead < functions_.size())
			encoder.prefetch(functions_[i + kAhead]);
		if (!encoder.add(functions_[i]))
			return -ENOMEM;
	}
	if (!encoder.finish())
		return -ENOMEM;
	functions_.release();
	store_.release();
	const size_t size = encoder.section_size();
	const size_t mapping = page_up(size);
	const long at = meter_.add(mapping) ?
		sys::call(__NR_mmap, 0, sys::arg(mapping), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1) : -ENOMEM;

	if (sys::failed(at))
		return -ENOMEM;
	encoder.write(reinterpret_cast<unsigned char *>(at));
	sys::call(__NR_mprotect, at, sys::arg(mapping), PROT_READ);
	synth->section = reinterpret_cast<void *>(at);
	synth->section_size = size;
	synth->mapping_size = mapping;
	stats_.peak_memory = meter_.peak;
	return 0;
}

int Synthesizer::run(const EncodeOptions &options, sframe_synth *synth)
{
	if (eh_frame_.empty())
		return -ENOENT;
	if (int err = read())
		return err;
	if (!sort())
		return -ENOMEM;
	resolve_overlaps();
	count_uses();
	return encode(options, synth);
}

} // namespace sframe

using namespace sframe;

EXPORT int sframe_synthesize(const struct sframe_image *image, struct sframe_synth *synth)
{
	if (synth->size != sizeof(*synth))
		return -EINVAL;
	memset(synth, 0, sizeof(*synth));
	synth->size = sizeof(*synth);
	return Synthesizer(*image, synth->stats).run(EncodeOptions(), synth);
}

EXPORT void sframe_synth_release(struct sframe_synth *synth)
{
	if (synth->section)
		sys::call(__NR_munmap, sys::arg(synth->section), sys::arg(synth->mapping_size));
	synth->section = nullptr;
	synth->section_size = synth->mapping_size = 0;
}

EXPORT const char *sframe_uncovered_name(int kind)
{
	switch (kind) {
	case SFRAME_UNCOVERED_CFA_EXPRESSION:
		return "CFA by an unknown expression";
	case SFRAME_UNCOVERED_CFA_REGISTER:
		return "CFA from a register out of reach";
	case SFRAME_UNCOVERED_NO_CFA:
		return "no CFA rule";
	case SFRAME_UNCOVERED_RA:
		return "return address not expressible";
	case SFRAME_UNCOVERED_FP:
		return "frame pointer not expressible";
	case SFRAME_UNCOVERED_OFFSET:
		return "offset out of 32 bits";
	case SFRAME_UNCOVERED_BAD_CFI:
		return "CFI that does not decode";
	case SFRAME_UNCOVERED_BAD_RANGE:
		return "function outside of the executable segments";
	case SFRAME_UNCOVERED_OVERLAP:
		return "bytes that another FDE claims";
	}
	return "unknown";
}
