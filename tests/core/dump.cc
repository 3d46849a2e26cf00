// SPDX-License-Identifier: MIT
//
// `sframectl dump` as a person meets it: what it prints and what it says about
// input it cannot use.
#include "elf_section.h"
#include "section_builder.h"
#include "toolchain.h"

#include <sys/prctl.h>

#include <algorithm>

using namespace core_test;

namespace {

const char *sframectl()
{
	const char *path = getenv("SFRAMECTL");
	return path ? path : "sframectl";
}

toolchain::Result dump(std::vector<std::string> args)
{
	args.insert(args.begin(), { sframectl(), "dump" });
	return toolchain::run(args);
}

bool contains(const std::string &text, const std::string &part)
{
	return text.find(part) != std::string::npos;
}

// Refused: status, nothing on stdout, one line on stderr that says why.
void expect_refusal(const toolchain::Result &result, int status, const std::string &why)
{
	EXPECT_EQ(result.status, status);
	EXPECT_EQ(result.output, "");
	EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
	EXPECT_TRUE(contains(result.errors, why)) << result.errors;
	EXPECT_EQ(result.errors.rfind("sframectl: ", 0), 0u) << result.errors;
}

SectionBuilder small()
{
	SectionBuilder b;

	b.function(0x1000, 0x20).row(0, SP, { 8 }).row(1, SP, { 16, -16 }).row(4, FP, { 16, -16 });
	b.function(0x1020, 0x20).repeating(16).row(0, SP, { 8 });
	b.function(0x1040, 0x08).row(0, SP, {});
	return b;
}

class Dump : public testing::Test {
public:
	// The program reads this process; a child may not do so everywhere.
	Dump() { prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); }

	std::string file(const std::string &name, const std::string &bytes)
	{
		const std::string path = dir / name;

		toolchain::write_file(path, bytes);
		return path;
	}
	toolchain::TempDir dir;
};

TEST_F(Dump, BareSectionInWords)
{
	const auto result = dump({ file("section", small().bytes()) });

	EXPECT_EQ(result.status, 0) << result.errors;
	EXPECT_TRUE(contains(result.output, "version 3, AMD64 little-endian, flags: FDE_SORTED"));
	EXPECT_TRUE(contains(result.output, "[0] 0x1000 to 0x1020\n"));
	EXPECT_TRUE(contains(result.output, "CFA=rsp+8          RA=*(CFA-8)     FP=rbp"));
	EXPECT_TRUE(contains(result.output, "CFA=rbp+16         RA=*(CFA-8)     FP=*(CFA-16)"));
	EXPECT_TRUE(contains(result.output, "repeating every 16 bytes"));
	EXPECT_TRUE(contains(result.output, "0x1040             outermost: no caller"));
}

TEST_F(Dump, BareSectionAtAnAddress)
{
	const auto result = dump({ "--address", "0x400000", file("section", small().bytes()) });

	EXPECT_TRUE(contains(result.output, "[0] 0x401000 to 0x401020\n")) << result.output;
}

TEST_F(Dump, ForeignByteOrder)
{
	SectionBuilder b;

	b.abi = 4;
	b.big = true;
	b.fixed_ra = 0;
	b.function(0x1000, 0x20).row(0, SP, { 0, -48, -72 });
	const auto result = dump({ file("section", b.bytes()) });
	EXPECT_EQ(result.status, 0) << result.errors;
	EXPECT_TRUE(contains(result.output, "s390x big-endian"));
	EXPECT_TRUE(contains(result.output, "CFA=r15+160        RA=*(CFA-48)    FP=*(CFA-72)"))
		<< result.output;
}

TEST_F(Dump, JsonIsJson)
{
	const auto result = dump({ "--json", file("section", small().bytes()) });
	const auto parsed = toolchain::run({ "python3", "-c",
		"import json,sys\nd=json.load(open(sys.argv[1]))\n"
		"print(d['version'],len(d['functions']),d['functions'][0]['rows'][2]['cfa'],"
		"d['functions'][2]['rows'][0]['outermost'])", file("out.json", result.output) });

	if (parsed.status == 127)
		GTEST_SKIP() << "no python3 here";
	EXPECT_EQ(parsed.output, "3 3 rbp+16 True\n") << parsed.errors << result.output;
}

TEST_F(Dump, ProcessMemory)
{
	SectionBuilder b = small();

	b.flags |= 4;
	const std::string bytes = b.bytes();
	char address[40];
	snprintf(address, sizeof(address), "%d:%p", getpid(), static_cast<const void *>(bytes.data()));
	const auto result = dump({ address });
	EXPECT_EQ(result.status, 0) << result.errors;
	snprintf(address, sizeof(address), "[0] 0x%lx to",
		 reinterpret_cast<uintptr_t>(bytes.data()) + 0x1000);
	EXPECT_TRUE(contains(result.output, address)) << result.output;
}

TEST_F(Dump, ElfFilesWithNames)
{
	SFRAME_NEED_TOOL(as, "as-2.47");
	SFRAME_NEED_TOOL(ld, "ld-2.47");
	const std::string object = dir / "a.o", shared = dir / "a.so";
	const std::string source = std::string(SFRAME_SOURCES) + "/x86-64.s";

	ASSERT_EQ(toolchain::run({ as, "--gsframe-3", "-o", object, source }).status, 0);
	ASSERT_EQ(toolchain::run({ ld, "-shared", "-o", shared, object }).status, 0);
	auto result = dump({ shared });
	EXPECT_EQ(result.status, 0) << result.errors;
	EXPECT_TRUE(contains(result.output, " drap, flexible\n"));
	EXPECT_TRUE(contains(result.output, "CFA=*(rbp-8)       RA=*(CFA-8)     FP=*(rbp+0)"));
	EXPECT_TRUE(contains(result.output, "CFA=rsp            RA=rdi          FP=rbp"));
	// relocations of an object file count: functions do not lie all at one place
	result = dump({ object });
	EXPECT_EQ(result.status, 0) << result.errors;
	EXPECT_TRUE(contains(result.output, "[1] 0xf to 0x22\n")) << result.output;
}

TEST_F(Dump, DamagedFunctionsAreMarkedAndCounted)
{
	std::string bytes = small().bytes();

	bytes[28 + 16 + 15] = 0x7f;	// the second function's rows are far outside
	const auto result = dump({ file("section", bytes) });
	EXPECT_EQ(result.status, 1);
	EXPECT_TRUE(contains(result.output, "[1] damaged entry"));
	EXPECT_TRUE(contains(result.output, "[2] 0x1040"));
	EXPECT_TRUE(contains(result.errors, ": 1 functions of its SFrame section are damaged"));
}

TEST_F(Dump, FilesThatAreNoSection)
{
	expect_refusal(dump({ dir / "missing" }), 3, "No such file");
	expect_refusal(dump({ file("empty", "") }), 3, "is empty");
	expect_refusal(dump({ file("text", "hello\n") }), 3, "neither an ELF file nor an SFrame section");
	expect_refusal(dump({ "/proc" }), 3, "is a directory");
	expect_refusal(dump({ "/dev/zero" }), 3, "is no regular file");
	expect_refusal(dump({ file("magic", "\x7f" "ELF") }), 3, "damaged or truncated ELF header");
}

TEST_F(Dump, SectionsThatAreRefused)
{
	SectionBuilder b = small();
	const std::string bytes = b.bytes();

	expect_refusal(dump({ file("short", bytes.substr(0, 20)) }), 3, "shorter than a header");
	expect_refusal(dump({ file("cut", bytes.substr(0, 40)) }), 3, "out of bounds");
	expect_refusal(dump({ file("both", bytes + bytes) }), 3, "several sections concatenated");
	b.version = 1;
	expect_refusal(dump({ file("one", b.bytes()) }), 3, "version 1, which is obsolete");
	b.version = 9;
	expect_refusal(dump({ file("nine", b.bytes()) }), 3, "version 9; versions 2 and 3 are read");
}

TEST_F(Dump, ElfFileWithoutASection)
{
	expect_refusal(dump({ sframectl() }), 3, "has no .sframe");
}

TEST_F(Dump, ProcessesThatCannotBeRead)
{
	char self[40];
	const std::string garbage(64, 'x');

	expect_refusal(dump({ "2147483646:0x1000" }), 3, "there is none");
	snprintf(self, sizeof(self), "%d:10", getpid());
	expect_refusal(dump({ self }), 3, "nothing is readable at 0x10");
	snprintf(self, sizeof(self), "%d:%p", getpid(), static_cast<const void *>(garbage.data()));
	expect_refusal(dump({ self }), 3, "lies no SFrame section");
}

TEST_F(Dump, WrongUse)
{
	expect_refusal(dump({}), 2, "name one file");
	expect_refusal(dump({ "a", "b" }), 2, "name one file");
	expect_refusal(dump({ "--address", "x", "a" }), 2, "'x' is no address");
	expect_refusal(dump({ "--address" }), 2, "needs a value");
	expect_refusal(dump({ "--nonsense" }), 2, "no option '--nonsense'");
}

TEST_F(Dump, HelpNamesItsOptions)
{
	const auto result = dump({ "--help" });

	EXPECT_EQ(result.status, 0);
	EXPECT_TRUE(contains(result.output, "--address"));
	EXPECT_TRUE(contains(result.output, "--json"));
}

} // namespace
