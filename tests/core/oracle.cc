// SPDX-License-Identifier: MIT
//
// Sections that binutils' assemblers and linkers made, and some by hand, read
// by our decoder and by `readelf --sframe`: every function, every row, and the
// row at every address must be the same.
#include "elf_section.h"
#include "readelf.h"
#include "section_builder.h"
#include "sframe_format.h"
#include "toolchain.h"

#include <sframe/decode.h>

#include <memory>

using namespace core_test;

namespace {

const std::string sources = SFRAME_SOURCES;

struct Registers {
	unsigned int sp, fp;
};

Registers registers(uint8_t abi)
{
	switch (abi) {
	case SFRAME_ABI_AMD64_ENDIAN_LITTLE:
		return { SFRAME_AMD64_REG_SP, SFRAME_AMD64_REG_FP };
	case SFRAME_ABI_S390X_ENDIAN_BIG:
		return { SFRAME_S390X_REG_SP, SFRAME_S390X_REG_FP };
	default:
		return { SFRAME_AARCH64_REG_SP, SFRAME_AARCH64_REG_FP };
	}
}

// A rule as readelf writes it.
std::string rule_text(uint8_t abi, const sframe_decoded_rule &rule)
{
	const Registers regs = registers(abi);
	std::string text = "c";
	char offset[16];

	if (rule.base == SFRAME_BASE_NONE)
		return "u";
	if (rule.base == SFRAME_BASE_REG) {
		text = "r";
		text.append(std::to_string(rule.reg));
		if (rule.reg == regs.sp)
			text = "sp";
		if (rule.reg == regs.fp)
			text = "fp";
	}
	snprintf(offset, sizeof(offset), "%+d", rule.offset);
	text.append(offset);
	// What is saved relative to the CFA is in memory, and readelf has no sign for that.
	return rule.deref && rule.base == SFRAME_BASE_REG ? "(" + text + ")" : text;
}

// readelf's "f" and, in flexible functions, "U": nothing said in the row.
std::string ra_text(const sframe_section_info &info, const std::string &text)
{
	if (text != "f" && text != "U")
		return text;
	return info.fixed_ra ? "c" + std::to_string(info.fixed_ra) : "u";
}

std::string describe(const sframe_section_info &info, const ReadelfRow &row)
{
	if (row.outermost)
		return "outermost";
	return row.cfa + " fp " + row.fp + " ra " + ra_text(info, row.ra) + (row.mangled ? " [s]" : "");
}

std::string describe(const sframe_section_info &info, const sframe_decoded_row &row)
{
	if (row.outermost)
		return "outermost";
	return rule_text(info.abi, row.cfa) + " fp " + rule_text(info.abi, row.fp) + " ra " +
	       rule_text(info.abi, row.ra) + (row.mangled_ra ? " [s]" : "");
}

using Decoder = std::unique_ptr<sframe_decoder, decltype(&sframe_decoder_free)>;

Decoder decode(const Section &section, unsigned int flags = 0)
{
	sframe_decoder *dec = nullptr;
	int why = 0;

	EXPECT_EQ(sframe_decoder_new(&dec, section.bytes.data(), section.bytes.size(),
				     section.address, flags, &why), 0)
		<< sframe_decode_status_name(why);
	return { dec, sframe_decoder_free };
}

// What compare() looked at: a test wants to know that it was not nothing.
struct Seen {
	size_t functions = 0, rows = 0, addresses = 0;
};

void compare_function(const sframe_decoder *dec, const sframe_section_info &info,
		      const sframe_function &fn, const ReadelfFunction &expected, Seen *seen)
{
	sframe_decoded_row row;
	uint64_t cursor = 0;
	size_t n = 0;

	ASSERT_EQ(fn.start, expected.start);
	EXPECT_EQ(fn.size, expected.size);
	EXPECT_EQ(fn.pctype != 0, expected.mask);
	EXPECT_EQ(fn.type != 0, expected.flexible);
	EXPECT_EQ(fn.signal != 0, expected.signal);
	EXPECT_EQ(fn.pauth_key != 0, expected.key_b);
	EXPECT_EQ(fn.num_rows, expected.rows.size());
	while (sframe_decoder_row(dec, &fn, &cursor, &row) == 1) {
		ASSERT_LT(n, expected.rows.size());
		EXPECT_EQ(row.start + (expected.mask ? 0 : fn.start), expected.rows[n].start);
		ASSERT_EQ(describe(info, row), describe(info, expected.rows[n]))
			<< "row " << n << " of the function at " << std::hex << fn.start;
		n++;
	}
	EXPECT_EQ(n, expected.rows.size());
	seen->functions++;
	seen->rows += n;
}

// The row that an unwinder gets, at each address.
void compare_addresses(const sframe_decoder *dec, const sframe_section_info &info,
		       const ReadelfFunction &f, uint8_t block, Seen *seen)
{
	for (uint64_t offset = 0; offset < f.size; offset++) {
		const uint64_t at = f.mask ? offset % block : f.start + offset;
		const ReadelfRow *expected = nullptr;
		sframe_decoded_row row;

		for (const ReadelfRow &r : f.rows)
			if (r.start <= at)
				expected = &r;
		const int err = sframe_decoder_lookup(dec, f.start + offset, &row);
		ASSERT_EQ(err, expected ? 0 : -ENOENT) << std::hex << f.start + offset;
		if (expected) {
			ASSERT_EQ(describe(info, row), describe(info, *expected))
				<< std::hex << f.start + offset;
		}
		seen->addresses++;
	}
}

Seen compare(const std::string &path, const std::string &readelf)
{
	Seen seen;
	const auto text = toolchain::run({ readelf, "--sframe", path });
	const auto expected = parse_readelf(text.output);
	const Section section = elf_section(path, ".sframe");
	const Decoder dec = decode(section);
	sframe_section_info info;

	if (!dec)
		return seen;
	sframe_decoder_info(dec.get(), &info);
	EXPECT_EQ(info.num_fdes, expected.size()) << text.output << text.errors;
	for (uint32_t i = 0; i < info.num_fdes && i < expected.size(); i++) {
		sframe_function fn;

		EXPECT_EQ(sframe_decoder_function(dec.get(), i, &fn), 0);
		compare_function(dec.get(), info, fn, expected[i], &seen);
		compare_addresses(dec.get(), info, expected[i], fn.rep_size, &seen);
		if (testing::Test::HasFatalFailure())
			break;
	}
	return seen;
}

// Assembles and links a shared object; returns its path, or "" after a failure.
std::string build(const toolchain::TempDir &dir, const std::string &source,
		  std::vector<std::string> as, std::vector<std::string> ld)
{
	const std::string object = dir / "a.o", shared = dir / "a.so";

	as.insert(as.end(), { "-o", object, source });
	ld.insert(ld.end(), { "-shared", "-o", shared, object });
	for (const auto &command : { as, ld }) {
		const auto result = toolchain::run(command);
		EXPECT_EQ(result.status, 0) << result.errors;
		if (result.status)
			return "";
	}
	return shared;
}

// A hand-made section in an object file, for readelf.
std::string wrap(const toolchain::TempDir &dir, const std::string &as, const std::string &bytes)
{
	const std::string raw = dir / "section", source = dir / "wrap.s", object = dir / "wrap.o";

	toolchain::write_file(raw, bytes);
	toolchain::write_file(source, "\t.section .sframe, \"a\"\n\t.incbin \"" + raw + "\"\n");
	const auto result = toolchain::run({ as, "-o", object, source });
	EXPECT_EQ(result.status, 0) << result.errors;
	return object;
}

TEST(Oracle, Amd64Version3)
{
	SFRAME_NEED_TOOL(as, "as-2.47");
	SFRAME_NEED_TOOL(ld, "ld-2.47");
	SFRAME_NEED_TOOL(readelf, "readelf-2.47");
	toolchain::TempDir dir;
	const std::string path = build(dir, sources + "/x86-64.s", { as, "--gsframe-3" },
				       { ld, "-z", "lazy" });
	const Seen seen = compare(path, readelf);

	EXPECT_EQ(seen.functions, 16u);
	EXPECT_GE(seen.rows, 50u);
	EXPECT_GT(seen.addresses, 70000u);
}

TEST(Oracle, Amd64Version2)
{
	SFRAME_NEED_TOOL(as, "as-2.44");
	SFRAME_NEED_TOOL(ld, "ld-2.44");
	SFRAME_NEED_TOOL(readelf, "readelf-2.44");
	toolchain::TempDir dir;
	const std::string path = build(dir, sources + "/x86-64.s", { as, "--gsframe" },
				       { ld, "-z", "lazy" });

	EXPECT_GE(compare(path, readelf).functions, 13u);
}

TEST(Oracle, AArch64Version3)
{
	SFRAME_NEED_TOOL(as, "aarch64-as-2.47");
	SFRAME_NEED_TOOL(ld, "aarch64-ld-2.47");
	SFRAME_NEED_TOOL(readelf, "aarch64-readelf-2.47");
	toolchain::TempDir dir;
	const std::string path = build(dir, sources + "/aarch64.s",
				       { as, "-march=armv8.5-a", "--gsframe-3" }, { ld });
	const Seen seen = compare(path, readelf);

	EXPECT_GE(seen.functions, 5u);
	EXPECT_GE(seen.rows, 17u);
}

TEST(Oracle, AArch64BigEndianVersion3)
{
	SFRAME_NEED_TOOL(as, "aarch64-as-2.47");
	SFRAME_NEED_TOOL(ld, "aarch64-ld-2.47");
	SFRAME_NEED_TOOL(readelf, "aarch64-readelf-2.47");
	toolchain::TempDir dir;
	const std::string path = build(dir, sources + "/aarch64.s",
				       { as, "-EB", "-march=armv8.5-a", "--gsframe-3" },
				       { ld, "-EB", "-maarch64linuxb" });

	EXPECT_GE(compare(path, readelf).functions, 5u);
}

TEST(Oracle, AArch64Version2)
{
	SFRAME_NEED_TOOL(as, "aarch64-as-2.44");
	SFRAME_NEED_TOOL(ld, "aarch64-ld-2.44");
	SFRAME_NEED_TOOL(readelf, "aarch64-readelf-2.44");
	toolchain::TempDir dir;
	const std::string path = build(dir, sources + "/aarch64.s",
				       { as, "-march=armv8.5-a", "--gsframe" }, { ld });

	EXPECT_GE(compare(path, readelf).functions, 5u);
}

TEST(Oracle, S390xVersion3)
{
	SFRAME_NEED_TOOL(as, "s390x-as-2.47");
	SFRAME_NEED_TOOL(ld, "s390x-ld-2.47");
	SFRAME_NEED_TOOL(readelf, "s390x-readelf-2.47");
	toolchain::TempDir dir;
	const std::string path = build(dir, sources + "/s390x.s",
				       { as, "-march=z13", "--gsframe-3" }, { ld });
	const Seen seen = compare(path, readelf);

	EXPECT_GE(seen.functions, 6u);
	EXPECT_GE(seen.rows, 17u);
}

// Hundreds of functions as a compiler describes them, among them realigned
// stacks. Made once, for both versions; "" if there is no compiler.
const std::string &compiled()
{
	static const toolchain::TempDir dir;
	static const std::string path = [] {
		const std::string assembly = dir / "compiled.s";
		const auto result = toolchain::run({ "c++", "-std=c++20", "-O2", "-g0", "-mavx2", "-fPIC",
						     "-S", "-o", assembly, sources + "/compiled.cc" });
		return result.status ? std::string() : assembly;
	}();

	return path;
}

TEST(Oracle, CompilerOutputVersion3)
{
	SFRAME_NEED_TOOL(as, "as-2.47");
	SFRAME_NEED_TOOL(ld, "ld-2.47");
	SFRAME_NEED_TOOL(readelf, "readelf-2.47");
	toolchain::TempDir dir;

	if (compiled().empty())
		GTEST_SKIP() << "no c++ here";
	const Seen seen = compare(build(dir, compiled(), { as, "--gsframe-3" }, { ld }), readelf);
	EXPECT_GT(seen.functions, 100u);
	EXPECT_GT(seen.rows, 1000u);
}

TEST(Oracle, CompilerOutputVersion2)
{
	SFRAME_NEED_TOOL(as, "as-2.44");
	SFRAME_NEED_TOOL(ld, "ld-2.44");
	SFRAME_NEED_TOOL(readelf, "readelf-2.44");
	toolchain::TempDir dir;

	if (compiled().empty())
		GTEST_SKIP() << "no c++ here";
	EXPECT_GT(compare(build(dir, compiled(), { as, "--gsframe" }, { ld }), readelf).functions, 100u);
}

// Start addresses of all three widths, a repeating block, an outermost function.
SectionBuilder amd64_section(uint8_t version)
{
	SectionBuilder b;

	b.version = version;
	b.function(0x1000, 0x40).row(0, SP, { 8 }).row(1, SP, { 16, -16 }).row(4, FP, { 16, -16 });
	b.function(0x1040, 0x40).repeating(16).row(0, SP, { 8 }).row(11, SP, { 16 });
	b.function(0x1080, 0x400).addresses(1).row(0, SP, { 8 }).row(0x200, SP, { 4104, -300 });
	b.function(0x2000, 0x20000).addresses(2).row(0, SP, { 8 }).row(0x10000, SP, { 1 << 20 });
	b.function(0x30000, 4).row(0, SP, {});
	return b;
}

TEST(Oracle, Version2FunctionStartsFromTheFieldItself)
{
	SFRAME_NEED_TOOL(as, "as-2.47");
	SFRAME_NEED_TOOL(readelf, "readelf-2.47");
	toolchain::TempDir dir;
	SectionBuilder b = amd64_section(2);

	b.flags |= SFRAME_F_FDE_FUNC_START_PCREL;
	EXPECT_EQ(compare(wrap(dir, as, b.bytes()), readelf).functions, 5u);
}

TEST(Oracle, Version3FunctionStartsFromTheSection)
{
	SFRAME_NEED_TOOL(as, "as-2.47");
	SFRAME_NEED_TOOL(readelf, "readelf-2.47");
	toolchain::TempDir dir;

	EXPECT_EQ(compare(wrap(dir, as, amd64_section(3).bytes()), readelf).functions, 5u);
}

// Before version 3 there was no flexible function: a register was an odd offset.
TEST(Oracle, S390xVersion2)
{
	SFRAME_NEED_TOOL(as, "s390x-as-2.47");
	SFRAME_NEED_TOOL(readelf, "s390x-readelf-2.47");
	toolchain::TempDir dir;
	SectionBuilder b;

	b.version = 2;
	b.abi = SFRAME_ABI_S390X_ENDIAN_BIG;
	b.big = true;
	b.fixed_ra = 0;
	b.function(0x1000, 0x40).row(0, SP, { 0 }).row(6, SP, { 0, -48, -72 })
		.row(12, SP, { 21, -48, -72 }).row(16, FP, { 21, 0, -72 });
	b.function(0x1040, 0x40).row(0, SP, { 0, 17 << 1 | 1, 16 << 1 | 1 })
		.row(8, SP, { 1024, 17 << 1 | 1 });
	EXPECT_EQ(compare(wrap(dir, as, b.bytes()), readelf).rows, 6u);
}

} // namespace
