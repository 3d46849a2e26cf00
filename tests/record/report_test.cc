// SPDX-License-Identifier: MIT
//
// `sframectl report`: each output of one recording, against each other and
// against what the program did.
#include <gtest/gtest.h>
#include <regex>
#include <sstream>
#include "audit/process.h"

namespace {

const std::string sframectl = built("SFRAMECTL");

class Report : public testing::Test {
protected:
	static void SetUpTestSuite()
	{
		directory_ = new TemporaryDirectory;
		run({ sframectl, "record", "-F", "250", "-o", *directory_ / "data", "--", built("VICTIM"), "shares" });
	}
	static void TearDownTestSuite() { delete directory_; }

	static std::string report(const Strings &options)
	{
		Strings argv = { sframectl, "report" };
		argv.insert(argv.end(), options.begin(), options.end());
		argv.push_back(*directory_ / "data");
		const Outcome o = run(argv);
		EXPECT_TRUE(o.exited(0)) << o.err;
		EXPECT_EQ(o.err, "");
		return o.out;
	}

	// A number of the JSON output, by its key.
	static uint64_t figure(const std::string &key)
	{
		const std::string json = report({ "--json" });
		std::smatch match;
		EXPECT_TRUE(std::regex_search(json, match, std::regex("\"" + key + "\": ([0-9]+)"))) << json;
		return match.empty() ? 0 : std::stoull(match[1]);
	}

	static TemporaryDirectory *directory_;
};

TemporaryDirectory *Report::directory_;

TEST_F(Report, JsonHasItsKeys)
{
	const std::string json = report({ "--json" });
	for (const char *key : { "samples", "complete", "lost", "threads", "stop_reasons", "sections", "native",
				 "synthesized", "refused", "frames", "sframe", "fp", "signal" })
		EXPECT_NE(json.find("\"" + std::string(key) + "\": "), std::string::npos) << key;
	// A parser of another house agrees that it is JSON.
	const std::string check = sframectl + " report --json " + *directory_ / "data" +
				  " | /usr/bin/python3 -c 'import json, sys; r = json.load(sys.stdin); "
				  "sys.exit(sum(r[\"stop_reasons\"].values()) != r[\"samples\"])'";
	EXPECT_TRUE(run({ "sh", "-c", check }).exited(0)) << json;
	EXPECT_GE(figure("samples"), 100u);
	EXPECT_EQ(figure("threads"), 1u);
	EXPECT_GE(figure("synthesized"), 3u);
}

TEST_F(Report, FoldedSumsToTheSamples)
{
	std::istringstream lines(report({ "--folded" }));
	uint64_t sum = 0;
	for (std::string line; std::getline(lines, line);) {
		EXPECT_TRUE(std::regex_match(line, std::regex("[^;]+(;[^;]+)* [0-9]+"))) << line;
		sum += std::stoull(line.substr(line.rfind(' ')));
	}
	EXPECT_EQ(sum, figure("samples"));
}

TEST_F(Report, TreeFitsAScreenAndNamesTheHotFunctions)
{
	std::istringstream lines(report({}));
	const std::string all = lines.str();
	EXPECT_NE(all.find("spin_major"), std::string::npos) << all;
	EXPECT_NE(all.find("spin_minor"), std::string::npos) << all;
	for (std::string line; std::getline(lines, line);) {
		const size_t columns = std::count_if(line.begin(), line.end(),
						     [](char c) { return (c & 0xc0) != 0x80; });
		EXPECT_LE(columns, 100u) << line;
	}
}

TEST_F(Report, PerfScriptHasAHeadAndFramesForEachSample)
{
	std::istringstream lines(report({ "--perf" }));
	uint64_t heads = 0;
	for (std::string line; std::getline(lines, line);) {
		if (line.empty())
			continue;
		if (line[0] == '\t') {
			EXPECT_TRUE(std::regex_match(line, std::regex("\t +[0-9a-f]+ .+ \\(.+\\)"))) << line;
			continue;
		}
		heads++;
		EXPECT_TRUE(std::regex_match(line, std::regex(".+ +[0-9]+/[0-9]+ [0-9]+\\.[0-9]{6}: +[0-9]+ .+: ?")))
			<< line;
	}
	EXPECT_EQ(heads, figure("samples"));
}

TEST_F(Report, HtmlIsOnePageThatNeedsNothingElse)
{
	const std::string page = *directory_ / "flame.html";
	report({ "--html", page });
	const Outcome o = run({ "cat", page });
	EXPECT_NE(o.out.find("spin_major"), std::string::npos);
	EXPECT_EQ(o.out.find("@PROFILE@"), std::string::npos);
	for (const char *external : { "http://", "https://", "src=", "@import", "url(", "<link" })
		EXPECT_EQ(o.out.find(external), std::string::npos) << external;
}

TEST_F(Report, NoProfileIsOneClearLine)
{
	for (const std::string &file : { std::string("/no/such/file"), std::string("/etc/passwd"),
					 std::string("/dev/null"), std::string("/") }) {
		const Outcome o = run({ sframectl, "report", file });
		EXPECT_TRUE(o.exited(3)) << file;
		EXPECT_EQ(o.out, "");
		EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
	}
}

TEST_F(Report, FileThatChangedSinceIsNamed)
{
	TemporaryDirectory d;
	const std::string copy = d / "program", data = d / "data";
	std::filesystem::copy_file(built("VICTIM"), copy);
	run({ sframectl, "record", "-o", data, "--", copy, "shares" });
	EXPECT_NE(run({ sframectl, "report", data }).out.find("spin_major"), std::string::npos);
	std::filesystem::remove(copy);
	std::filesystem::copy_file("/bin/true", copy);
	const std::string out = run({ sframectl, "report", data }).out;
	EXPECT_NE(out.find(copy + ": changed since"), std::string::npos) << out;
	EXPECT_EQ(out.find("spin_major"), std::string::npos) << out;
	EXPECT_NE(out.find("program+0x"), std::string::npos) << out;
}

} // namespace
