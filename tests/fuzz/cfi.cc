// SPDX-License-Identifier: MIT
//
// CFI evaluation: the input is one CIE's program and one FDE's.
//
//	byte 0: code alignment; byte 1: data alignment, signed; byte 2: bit 0
//	"S", bit 1 absolute addresses; byte 3: length of the CIE's program
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include <elf.h>
#include <sframe/synth.h>
#include "../synth/valid_section.h"

namespace {

using Bytes = std::vector<uint8_t>;

constexpr uint64_t kText = 0x10000, kTextSize = 0x20000, kEhFrame = 0x400000;

void put(Bytes *out, const void *bytes, size_t size)
{
	const uint8_t *p = static_cast<const uint8_t *>(bytes);

	out->insert(out->end(), p, p + size);
}

template <typename T> void put(Bytes *out, T value) { put(out, &value, sizeof(value)); }

void put_entry(Bytes *out, const Bytes &body)
{
	put(out, static_cast<uint32_t>(body.size()));
	put(out, body.data(), body.size());
}

Bytes cie(const uint8_t *options, const uint8_t *program, size_t size)
{
	Bytes body;

	put(&body, uint32_t(0));
	put(&body, uint8_t(1));
	put(&body, options[2] & 1 ? "zRS" : "zR", options[2] & 1 ? 4 : 3);
	put(&body, uint8_t(options[0] & 0x7f));
	put(&body, uint8_t(options[1] & 0x7f));
	put(&body, uint8_t(16));
	put(&body, uint8_t(1));
	put(&body, uint8_t(options[2] & 2 ? 0x04 : 0x1c));	// udata8, or pcrel sdata8
	put(&body, program, size);
	return body;
}

Bytes fde(size_t at, bool absolute, const uint8_t *program, size_t size)
{
	Bytes body;

	put(&body, static_cast<uint32_t>(at + 4));
	put(&body, absolute ? kText : kText - (kEhFrame + at + 8));
	put(&body, kTextSize);
	put(&body, uint8_t(0));
	put(&body, program, size);
	return body;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const Bytes text(kTextSize, 0xcc);
	sframe_image image = {};
	sframe_synth synth = {};
	Bytes section;

	if (size < 4)
		return 0;
	const size_t in_cie = data[3] < size - 4 ? data[3] : size - 4;

	put_entry(&section, cie(data, data + 4, in_cie));
	put_entry(&section, fde(section.size(), data[2] & 2, data + 4 + in_cie, size - 4 - in_cie));
	image.eh_frame = kEhFrame;
	image.segment_count = 2;
	image.segment[0] = {kText, text.size(), text.data(), PF_R | PF_X, 0};
	image.segment[1] = {kEhFrame, section.size(), section.data(), PF_R, 0};
	synth.size = sizeof(synth);
	if (sframe_synthesize(&image, &synth))
		abort();
	if (const char *fault = section_fault(synth)) {
		fprintf(stderr, "%s\n", fault);
		abort();
	}
	// Every byte of the function is accounted for.
	if (synth.stats.cfi_bytes != kTextSize || synth.stats.peak_memory > 24 * size + (4u << 20))
		abort();
	sframe_synth_release(&synth);
	return 0;
}
