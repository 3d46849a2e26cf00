// SPDX-License-Identifier: MIT
//
// Sections that binutils wrote: the judge, the decoder and the GNU assembler
// understand each other, in versions 3 and 2.
#include <gtest/gtest.h>
#include <toolchain.h>
#include "sframectl.h"

namespace {

// A realigned stack (the CFA in r10, then in memory), alloca, and plain calls.
const char kSource[] = R"(
#include <alloca.h>
#include <immintrin.h>
__attribute__((target("avx2")))
void realigned(int n, __m256i *a, void (*use)(__m256i *, char *))
{
	__m256i sum = _mm256_add_epi32(a[0], a[1]);
	char *bytes = alloca(n);

	use(&sum, bytes);
	a[2] = sum;
}
long factorial(long n, long (*next)(long)) { return n < 2 ? 1 : n * next(n - 1); }
)";

class Native : public testing::Test {
protected:
	// A shared object of the source, its .sframe by the binutils of @version.
	bool build(const std::string &version, const std::string &option)
	{
		const std::string as = toolchain::find("as-" + version);
		const std::string ld = toolchain::find("ld-" + version);

		if (as.empty() || ld.empty())
			return false;
		write_whole(tmp / "a.c", kSource);
		return run({ "gcc", "-O2", "-fPIC", "-fcf-protection=none", "-S", "-o", tmp / "a.s",
			     tmp / "a.c" }).exited(0) &&
		       run({ as, option, "-o", tmp / "a.o", tmp / "a.s" }).exited(0) &&
		       run({ ld, "-shared", "--eh-frame-hdr", "-o", tmp / "a.so", tmp / "a.o" })
			       .exited(0);
	}

	TemporaryDirectory tmp;
};

#define NEED(version)                                                                             \
	if (toolchain::find("as-" version).empty() || toolchain::find("ld-" version).empty())    \
	GTEST_SKIP() << "no binutils " version " in " << toolchain::directory()                  \
		     << ": run tests/toolchain/fetch"

TEST_F(Native, VersionThreeSaysAllThatEhFrameSays)
{
	NEED("2.47");
	ASSERT_TRUE(build("2.47", "--gsframe-3"));
	const Outcome o = sframectl({ "check", "--json", tmp / "a.so" });

	EXPECT_TRUE(o.exited(0)) << o.out << o.err;
	EXPECT_TRUE(contains(o.out, "\"source\":\"native\",\"version\":3")) << o.out;
	EXPECT_EQ(number(o.out, "disagreements"), 0);
	EXPECT_EQ(number(o.out, "missed"), 0) << o.out;
	EXPECT_EQ(number(o.out, "eh_frame_code_covered_percent"), 100);
}

// Version 2 has no flexible entries: what is left out is missed, not wrong, and
// the file's own section is no longer the one that is registered.
TEST_F(Native, VersionTwoMissesTheRealignedFunction)
{
	NEED("2.44");
	ASSERT_TRUE(build("2.44", "--gsframe"));
	const Outcome own = sframectl({ "check", "--native", "--json", tmp / "a.so" });
	const Outcome best = sframectl({ "check", tmp / "a.so" });

	EXPECT_TRUE(own.exited(0)) << own.out << own.err;
	EXPECT_TRUE(contains(own.out, "\"source\":\"native\",\"version\":2")) << own.out;
	EXPECT_EQ(number(own.out, "disagreements"), 0);
	EXPECT_GT(number(own.out, "missed"), 0);
	EXPECT_TRUE(best.exited(0)) << best.err;
	EXPECT_TRUE(contains(best.out, "synthesized section")) << best.out;
	EXPECT_TRUE(contains(best.out, "too few functions")) << best.out;
}

TEST_F(Native, AWrongRowOfItIsFound)
{
	NEED("2.47");
	ASSERT_TRUE(build("2.47", "--gsframe-3"));
	const Outcome section = run({ "objcopy", "-O", "binary", "--only-section=.sframe",
				      tmp / "a.so", tmp / "section" });
	ASSERT_TRUE(section.exited(0)) << section.err;
	std::string bytes = read_whole(tmp / "a.so"), rows = read_whole(tmp / "section");
	const size_t at = bytes.find(rows);

	ASSERT_NE(at, std::string::npos);
	// The last byte of the section is the last row's last word.
	bytes[at + rows.size() - 1] ^= 8;
	write_whole(tmp / "a.so", bytes);
	const Outcome o = sframectl({ "check", "--native", "--json", tmp / "a.so" });
	EXPECT_TRUE(o.exited(1)) << o.out << o.err;
	EXPECT_GT(number(o.out, "disagreements"), 0);
}

} // namespace
