// SPDX-License-Identifier: MIT
//
// What libdw says of the sections that are made from real files: the promises
// of the project, over the files that they are made for.
#include <gtest/gtest.h>
#include "sframectl.h"

namespace {

#define LIB "/usr/lib/x86_64-linux-gnu/"

const char *const kFiles[] = {
	LIB "libc.so.6", LIB "ld-linux-x86-64.so.2", LIB "libm.so.6", LIB "libstdc++.so.6",
	LIB "libssl.so.3", LIB "libsqlite3.so.0", "/usr/bin/python3.11", "/usr/bin/bash",
	LIB "libcrypto.so.3", LIB "libLLVM-14.so.1", "[vdso]",
};

bool present(const std::string &path) { return path[0] != '/' || !access(path.c_str(), R_OK); }

class Files : public testing::TestWithParam<const char *> {
protected:
	void SetUp() override
	{
		if (!present(GetParam()))
			GTEST_SKIP() << GetParam() << " is not installed";
	}
};

void expect_agreement(const Outcome &o)
{
	EXPECT_TRUE(o.exited(0)) << o.out << o.err;
	EXPECT_EQ(number(o.out, "disagreements"), 0);
	EXPECT_EQ(number(o.out, "missed"), 0);
	EXPECT_EQ(number(o.out, "unjudged"), 0);
	EXPECT_EQ(number(o.out, "unreadable_fdes"), 0);
	EXPECT_GT(number(o.out, "compared"), 0);
}

TEST_P(Files, EveryRowAgrees)
{
	const Outcome o = sframectl({ "check", "--synth", "--json", GetParam() });

	expect_agreement(o);
	// All that SFrame can say is said.
	EXPECT_EQ(number(o.out, "eh_frame_code_covered_bytes"), number(o.out, "expressible_bytes"));
}

INSTANTIATE_TEST_SUITE_P(System, Files, testing::ValuesIn(kFiles));

// The literal comparison, byte by byte: rows cannot hide behind their own ends.
class EveryByte : public Files {};

TEST_P(EveryByte, Agrees)
{
	const Outcome rows = sframectl({ "check", "--synth", "--json", GetParam() });
	const Outcome bytes = sframectl({ "check", "--synth", "--every-byte", "--json", GetParam() });

	expect_agreement(bytes);
	EXPECT_EQ(number(bytes.out, "compared"), number(bytes.out, "eh_frame_code_covered_bytes"));
	EXPECT_EQ(number(bytes.out, "eh_frame_code_bytes"), number(rows.out, "eh_frame_code_bytes"));
}

INSTANTIATE_TEST_SUITE_P(System, EveryByte,
			 testing::Values(LIB "ld-linux-x86-64.so.2", LIB "libssl.so.3", "[vdso]",
					 "/usr/bin/bash", LIB "libc.so.6"));

Strings check_of(bool with_libcrypto)
{
	Strings command = { "check", "--synth", "--json" };

	for (const char *file : kFiles)
		if (present(file) && (with_libcrypto || std::string(file) != LIB "libcrypto.so.3"))
			command.push_back(file);
	return command;
}

TEST(Set, IsSmallerThanThreeQuartersOfEhFrame)
{
	const Outcome o = sframectl(check_of(true));

	ASSERT_TRUE(o.exited(0)) << o.err;
	EXPECT_GT(number(o.out, "ratio"), 0);
	EXPECT_LE(number(o.out, "ratio"), 0.75);
	RecordProperty("ratio", std::to_string(number(o.out, "ratio")));
}

// libcrypto's hand-written assembly has CFA expressions that SFrame cannot say.
TEST(Set, CoversNearlyAllCodeOfEhFrame)
{
	const Outcome o = sframectl(check_of(false));

	ASSERT_TRUE(o.exited(0)) << o.err;
	EXPECT_GE(number(o.out, "eh_frame_code_covered_percent"), 99.9);
}

TEST(Set, TellsLibcryptoApartByKind)
{
	if (!present(LIB "libcrypto.so.3"))
		GTEST_SKIP() << "libcrypto is not installed";
	const Outcome o = sframectl({ "check", "--synth", LIB "libcrypto.so.3" });

	EXPECT_TRUE(o.exited(0)) << o.err;
	EXPECT_TRUE(contains(o.out, "CFA by an unknown expression:")) << o.out;
}

TEST(Set, SeveralFilesMakeATableWithATotal)
{
	const Outcome o = sframectl({ "check", "--synth", "[vdso]", "/usr/bin/bash" });

	EXPECT_TRUE(o.exited(0)) << o.err;
	EXPECT_TRUE(contains(o.out, "\n[vdso]")) << o.out;
	EXPECT_TRUE(contains(o.out, "\nbash")) << o.out;
	EXPECT_TRUE(contains(o.out, "\ntotal")) << o.out;
}

// A file without section headers: program headers are enough.
TEST(Stripped, SectionHeadersAreNotNeeded)
{
	TemporaryDirectory tmp;
	std::string bytes = read_whole("/usr/bin/bash");
	const Outcome whole = sframectl({ "check", "--synth", "--json", "/usr/bin/bash" });

	// e_shoff, then e_shentsize to e_shstrndx
	bytes.replace(40, 8, 8, '\0');
	bytes.replace(58, 6, 6, '\0');
	write_whole(tmp / "bash", bytes);
	const Outcome o = sframectl({ "check", "--synth", "--json", tmp / "bash" });

	expect_agreement(o);
	for (const char *key : { "functions", "rows", "compared", "eh_frame_code_covered_bytes",
				 "section_size", "eh_frame_size" })
		EXPECT_EQ(number(o.out, key), number(whole.out, key)) << key;
}

} // namespace
