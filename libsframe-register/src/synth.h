// SPDX-License-Identifier: MIT
//
// One run of synthesis. Tests and benchmarks use it to look inside; everybody
// else calls sframe_synthesize().
#pragma once

#include <cstdint>
#include <sframe/synth.h>
#include "arena.h"
#include "eh_frame.h"
#include "encode.h"
#include "rows.h"

namespace sframe {

class Synthesizer {
public:
	Synthesizer(const sframe_image &image, sframe_synth_stats &stats);

	// 0 or -errno as sframe_synthesize(); the section is in *synth then.
	int run(const EncodeOptions &options, sframe_synth *synth);

private:
	int read();
	bool add(const Fde &fde);
	bool sort();
	void resolve_overlaps();
	void count_uses();
	int encode(const EncodeOptions &options, sframe_synth *synth);

	const sframe_image &image_;
	sframe_synth_stats &stats_;
	Meter meter_;
	EhFrame eh_frame_;
	RowStore store_;
	Array<Function> functions_;
};

} // namespace sframe
