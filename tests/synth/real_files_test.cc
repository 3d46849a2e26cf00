// SPDX-License-Identifier: MIT
//
// Synthesis of the system's own files: that every function is there, how much
// is covered, how small and how frugal it is.
#include <gtest/gtest.h>
#include "mapped_file.h"

namespace {

struct Expectation {
	const char *path;
	uint32_t functions;	// at least
	double covered;		// of cfi_bytes, at least
};

class RealFile : public testing::TestWithParam<Expectation> {};

TEST_P(RealFile, IsCovered)
{
	MappedFile file(GetParam().path);
	sframe_image image;
	sframe_synth synth = {};

	if (!file)
		GTEST_SKIP() << GetParam().path << " is not installed";
	ASSERT_EQ(file.image(&image), 0);
	synth.size = sizeof(synth);
	ASSERT_EQ(sframe_synthesize(&image, &synth), 0);
	EXPECT_GE(synth.stats.functions, GetParam().functions);
	EXPECT_GE(static_cast<double>(synth.stats.covered_bytes),
		  GetParam().covered * static_cast<double>(synth.stats.cfi_bytes));
	EXPECT_LE(synth.section_size, synth.stats.eh_frame_size);
	sframe_synth_release(&synth);
}

INSTANTIATE_TEST_SUITE_P(System, RealFile, testing::Values(
	Expectation{"/lib/x86_64-linux-gnu/libc.so.6", 3000, 0.999},
	Expectation{"/bin/bash", 2000, 0.999}));

} // namespace
