// SPDX-License-Identifier: MIT
//
// Whole-file synthesis: the input is an ELF file.
#include <cstdio>
#include <cstdlib>
#include <sframe/synth.h>
#include "../synth/valid_section.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	sframe_image image;
	sframe_synth synth = {};

	synth.size = sizeof(synth);
	if (sframe_image_from_file(&image, data, size) || sframe_synthesize(&image, &synth))
		return 0;
	if (const char *fault = section_fault(synth)) {
		fprintf(stderr, "%s\n", fault);
		abort();
	}
	// Segments may share the file's bytes: each entry of the input counts once.
	if (synth.stats.peak_memory > 24 * size + (4u << 20) + synth.mapping_size) {
		fprintf(stderr, "%lu bytes of memory for %zu of input\n",
			static_cast<unsigned long>(synth.stats.peak_memory), size);
		abort();
	}
	sframe_synth_release(&synth);
	return 0;
}
