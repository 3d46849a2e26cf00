// SPDX-License-Identifier: MIT
//
// What binutils 2.47 reads in a synthesized section. The section is placed at
// address 0, so that readelf's addresses are link-time addresses.
#include <gtest/gtest.h>
#include <sstream>
#include <sys/auxv.h>
#include <toolchain.h>
#include "eh_frame_builder.h"
#include "mapped_file.h"

namespace {

// A rule as readelf writes it: parentheses where a register leads to memory;
// a place at the CFA is always in memory.
std::string written(const sframe_decoded_rule &rule)
{
	std::string text = text_of(rule);

	if (!rule.deref)
		return text;
	text.erase(0, 1);
	return rule.base == SFRAME_BASE_CFA ? text.substr(1, text.size() - 2) : text;
}

bool is_fixed_ra(const sframe_decoded_rule &rule)
{
	return rule.base == SFRAME_BASE_CFA && rule.deref && rule.offset == -8;
}

// The section as one line a row: "address CFA FP RA", in readelf's order.
std::vector<std::string> our_rows(const Section &s)
{
	std::vector<std::string> out;

	for (uint32_t i = 0; const auto fn = s.function(i); i++) {
		sframe_decoded_row row;
		uint64_t cursor = 0;

		while (sframe_decoder_row(s.decoder(), &*fn, &cursor, &row) == 1) {
			std::ostringstream line;

			line << std::hex << (fn->pctype ? 0 : fn->start) + row.start << std::dec << ' ';
			if (row.outermost)
				line << "RA undefined";
			else
				line << written(row.cfa) << ' ' << written(row.fp) << ' '
				     << (is_fixed_ra(row.ra) ? "f" : written(row.ra));
			out.push_back(line.str());
		}
	}
	return out;
}

std::vector<std::string> their_rows(const std::string &text)
{
	std::vector<std::string> out;
	std::istringstream lines(text);

	for (std::string line; std::getline(lines, line);) {
		std::istringstream words(line);
		std::string address, cfa, fp, ra, more;

		words >> address >> cfa >> fp >> ra;
		if (address.size() != 16 || address.find_first_not_of("0123456789abcdef") != address.npos)
			continue;
		address.erase(0, std::min(address.find_first_not_of('0'), address.size() - 1));
		// "U": no word for the return address, which is then where it always is.
		if (ra == "U")
			ra = "f";
		out.push_back(cfa == "RA" ? address + " RA undefined" :
					    address + " " + cfa + " " + fp + " " + ra);
	}
	return out;
}

void expect_same_rows(const sframe_image &image)
{
	SFRAME_NEED_TOOL(readelf, "readelf-2.47");
	SFRAME_NEED_TOOL(objcopy, "objcopy-2.47");
	toolchain::TempDir tmp;
	Section s(image);

	ASSERT_EQ(s.error(), 0);
	const Bytes bytes = s.bytes();
	toolchain::write_file(tmp / "section", std::string(bytes.begin(), bytes.end()));
	toolchain::Result r = toolchain::run({objcopy, "-I", "binary", "-O", "elf64-x86-64",
		"--rename-section", ".data=.sframe,alloc,load,readonly,data,contents",
		tmp / "section", tmp / "object"});
	ASSERT_EQ(r.status, 0) << r.errors;
	r = toolchain::run({readelf, "--sframe", tmp / "object"});
	ASSERT_EQ(r.status, 0) << r.errors;
	EXPECT_EQ(r.errors, "");

	const auto ours = our_rows(s), theirs = their_rows(r.output);

	EXPECT_GE(ours.size(), s.stats().entries);
	ASSERT_EQ(theirs.size(), ours.size());
	for (size_t i = 0; i < ours.size(); i++)
		ASSERT_EQ(theirs[i], ours[i]) << "row " << i;
}

class Readelf : public testing::TestWithParam<const char *> {};

TEST_P(Readelf, ReadsTheSameRows)
{
	MappedFile file(GetParam());
	sframe_image image;

	if (!file)
		GTEST_SKIP() << GetParam() << " is not installed";
	ASSERT_EQ(file.image(&image), 0);
	expect_same_rows(image);
}

TEST(ReadelfVdso, ReadsTheSameRows)
{
	const uint64_t base = getauxval(AT_SYSINFO_EHDR);
	sframe_image image;

	if (!base)
		GTEST_SKIP() << "no vDSO in this process";
	const Elf64_Ehdr *eh = reinterpret_cast<const Elf64_Ehdr *>(base);

	ASSERT_EQ(sframe_image_from_memory(&image, base,
					   reinterpret_cast<const Elf64_Phdr *>(base + eh->e_phoff),
					   eh->e_phnum), 0);
	expect_same_rows(image);
}

// A program with realigned stacks, a CFA in r10 and rbp at a register.
TEST(ReadelfFlexible, ReadsTheSameRows)
{
	EhFrameBuilder b;

	b.fde(b.cie(), kText, 64,
	      Bytes{0x41, 0x0c, 10, 0, 0x41, 0x10, 6, 2, 0x76, 0, 0x41, 0x0f, 3, 0x76, 0x78, 6,
		    0x41, 0x0c, 3, 0xc8, 1, 0x41, 0x0c, 7, 8, 0xc6, 0x41, 0x07, 16});
	expect_same_rows(b.image());
}

#define LIB "/lib/x86_64-linux-gnu/"

INSTANTIATE_TEST_SUITE_P(System, Readelf, testing::Values(
	LIB "libc.so.6", "/lib64/ld-linux-x86-64.so.2", LIB "libm.so.6", LIB "libstdc++.so.6",
	LIB "libcrypto.so.3", LIB "libssl.so.3", LIB "libsqlite3.so.0", "/usr/bin/python3.11",
	"/bin/bash", LIB "libLLVM-14.so.1"));

} // namespace
