// SPDX-License-Identifier: MIT
//
// Synthesis of the system's own files: that every function is there, how much
// is covered, how small and how frugal it is, and that what the section says
// is what the CFI says. (That the CFI is evaluated right is for tests/check,
// whose judge is libdw.)
#include <gtest/gtest.h>
#include <cfi.h>
#include "eh_frame_builder.h"
#include "mapped_file.h"

namespace {

struct Expectation {
	const char *path;
	uint32_t functions;	// at least
	double covered;		// of cfi_bytes, at least
};

// A test name of the file's name.
std::string name_of(const testing::TestParamInfo<Expectation> &info)
{
	std::string name = strrchr(info.param.path, '/') + 1;

	for (char &c : name)
		if (!isalnum(static_cast<unsigned char>(c)))
			c = '_';
	return name;
}

class RealFile : public testing::TestWithParam<Expectation> {
protected:
	void SetUp() override
	{
		if (!file)
			GTEST_SKIP() << GetParam().path << " is not installed";
		ASSERT_EQ(file.image(&image), 0);
	}

	MappedFile file{GetParam().path};
	sframe_image image;
};

TEST_P(RealFile, IsCovered)
{
	Section s(image);
	const sframe_synth_stats &stats = s.stats();
	uint64_t uncovered = 0;

	ASSERT_EQ(s.error(), 0);
	EXPECT_GE(stats.functions, GetParam().functions);
	EXPECT_GE(static_cast<double>(stats.covered_bytes),
		  GetParam().covered * static_cast<double>(stats.cfi_bytes));
	for (uint64_t bytes : stats.uncovered_bytes)
		uncovered += bytes;
	EXPECT_EQ(stats.covered_bytes + uncovered, stats.cfi_bytes);
	// These files decode: what is left out is what SFrame has no words for.
	EXPECT_EQ(stats.uncovered[SFRAME_UNCOVERED_BAD_CFI], 0u);
	EXPECT_EQ(stats.uncovered[SFRAME_UNCOVERED_BAD_RANGE], 0u);
	EXPECT_EQ(stats.uncovered[SFRAME_UNCOVERED_OVERLAP], 0u);
}

TEST_P(RealFile, TakesMemoryInProportion)
{
	Section s(image);

	ASSERT_EQ(s.error(), 0);
	// Tables and windows of a fixed size weigh in small files only.
	EXPECT_LE(s.stats().peak_memory, 3 * s.stats().eh_frame_size + 192 * 1024);
}

TEST_P(RealFile, GivesTheSameBytesEachTime)
{
	Section a(image), b(image);

	ASSERT_EQ(a.error(), 0);
	EXPECT_TRUE(a.bytes() == b.bytes());
}

// The rules of a state in the notation of rules_at(), "" where SFrame has none.
std::string expected(const sframe::CfiState &state, uint64_t pc)
{
	using sframe::Location;
	const auto rule = [](const Location &at, bool *ok) {
		const int32_t offset = static_cast<int32_t>(at.offset);

		switch (at.kind) {
		case Location::kRegister:
			return sframe_decoded_rule{SFRAME_BASE_REG, 0, uint16_t(at.reg), offset};
		case Location::kMemory:
			return sframe_decoded_rule{SFRAME_BASE_REG, 1, uint16_t(at.reg), offset};
		case Location::kCfaMemory:
			return sframe_decoded_rule{SFRAME_BASE_CFA, 1, 0, offset};
		case Location::kUnset:
		case Location::kSame:
			return sframe_decoded_rule{SFRAME_BASE_NONE, 0, 0, 0};
		default:
			*ok = false;
			return sframe_decoded_rule{};
		}
	};
	bool ok = true;
	Location cfa = state.cfa;

	if (state.ra.kind == Location::kUndefined)
		return "outermost";
	if (cfa.kind == Location::kPlt) {
		cfa.kind = Location::kRegister;
		cfa.offset += int64_t((pc & cfa.mask) >= cfa.threshold) << cfa.shift;
	}
	if (state.sp.kind != Location::kUnset && !(state.sp == state.cfa))
		return "none";
	const std::string text = text_of(rule(cfa, &ok)) + " " + text_of(rule(state.ra, &ok)) + " " +
		text_of(rule(state.bp, &ok));

	return ok ? text : "none";
}

// At the first and last byte of every row of every function.
TEST_P(RealFile, SaysWhatTheCfiSays)
{
	Section s(image);
	sframe::Meter meter;
	sframe::EhFrame eh_frame(image, meter);
	sframe::Fde fde;
	uint64_t rows = 0;

	ASSERT_EQ(s.error(), 0);
	for (sframe::Entry entry; (entry = eh_frame.next(&fde)) != sframe::Entry::kEnd;) {
		if (entry != sframe::Entry::kFde || fde.size == 0)
			continue;
		const sframe::Cie &cie = eh_frame.cies()[fde.cie];
		sframe::CfiState initial;

		ASSERT_TRUE(sframe::evaluate_cie(cie, &initial));
		sframe::CfiProgram program(cie, initial, fde, eh_frame.base());
		for (bool more = true; more; rows++) {
			const auto step = program.next();
			const uint64_t start = program.start();
			// Where the next row begins, asked of a copy.
			sframe::CfiProgram ahead = program;
			const uint64_t end = step == sframe::CfiProgram::kRow ?
				(ahead.next(), ahead.start()) : fde.size;

			ASSERT_NE(step, sframe::CfiProgram::kBad);
			more = step == sframe::CfiProgram::kRow && end < fde.size;
			for (uint64_t offset : {start, std::min(end, fde.size) - 1}) {
				const uint64_t pc = fde.start + offset;

				ASSERT_EQ(rules_at(s, pc), expected(program.state(), pc)) << std::hex << pc;
			}
			if (const auto row = s.at(fde.start + start)) {
				ASSERT_EQ(row->signal != 0, cie.signal);
			}
		}
	}
	EXPECT_GE(rows, s.stats().functions);
}

#define LIB "/lib/x86_64-linux-gnu/"

INSTANTIATE_TEST_SUITE_P(System, RealFile, testing::Values(
	Expectation{LIB "libc.so.6", 3000, 0.9995},
	Expectation{"/lib64/ld-linux-x86-64.so.2", 200, 0.9995},
	Expectation{LIB "libm.so.6", 500, 1},
	Expectation{LIB "libstdc++.so.6", 4000, 1},
	// Hand-written code that keeps the CFA in memory and adds to it: 5 %.
	Expectation{LIB "libcrypto.so.3", 9000, 0.94},
	Expectation{LIB "libssl.so.3", 1000, 1},
	Expectation{LIB "libsqlite3.so.0", 2000, 1},
	Expectation{"/usr/bin/python3.11", 9000, 1},
	Expectation{"/bin/bash", 2000, 1},
	Expectation{LIB "libLLVM-14.so.1", 90000, 1}), name_of);

// All of them together, as the design's targets have it.
TEST(RealFiles, AreSmallTogether)
{
	uint64_t sections = 0, eh_frames = 0;

	for (const char *path : {LIB "libc.so.6", "/lib64/ld-linux-x86-64.so.2", LIB "libm.so.6",
				 LIB "libstdc++.so.6", LIB "libcrypto.so.3", LIB "libssl.so.3",
				 LIB "libsqlite3.so.0", "/usr/bin/python3.11", "/bin/bash",
				 LIB "libLLVM-14.so.1"}) {
		MappedFile file(path);
		sframe_image image;

		if (!file || file.image(&image))
			continue;
		Section s(image);
		ASSERT_EQ(s.error(), 0) << path;
		sections += s.bytes().size();
		eh_frames += s.stats().eh_frame_size;
		// One by one the worst is libsqlite3: large functions that push much.
		EXPECT_LE(static_cast<double>(s.bytes().size()),
			  0.87 * static_cast<double>(s.stats().eh_frame_size)) << path;
	}
	ASSERT_NE(eh_frames, 0u);
	EXPECT_LE(static_cast<double>(sections), 0.70 * static_cast<double>(eh_frames));
}

} // namespace
