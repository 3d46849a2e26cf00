// SPDX-License-Identifier: MIT
//
// The demonstration programs do what their README says.
#include <gtest/gtest.h>
#include "process.h"

namespace {

size_t count(const std::string &text, const std::string &what)
{
	size_t n = 0;

	for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size())
		n++;
	return n;
}

void expect_complete_stacks(const Outcome &outcome)
{
	EXPECT_TRUE(outcome.exited(0)) << outcome.err;
	EXPECT_EQ(count(outcome.out, "complete: "), 4u) << outcome.out;
	EXPECT_EQ(count(outcome.out, " 0 by frame pointer"), 4u) << outcome.out;
	EXPECT_GE(count(outcome.out, "in libdemo-counter.so"), 8u) << "six recursions, caller, bottom";
	EXPECT_GE(count(outcome.out, "plugin_run in libdemo-sorter.so"), 2u);
	EXPECT_GE(count(outcome.out, "main in plugin-host"), 4u);
}

Strings host()
{
	return { built("PLUGIN_HOST"), built("DEMOS") + "/libdemo-sorter.so",
		 built("DEMOS") + "/libdemo-counter.so" };
}

TEST(PluginHost, PrintsWholeStacks)
{
	TemporaryDirectory home;

	expect_complete_stacks(run(host(), { { "XDG_CACHE_HOME", home.path() } }));
}

TEST(PluginHost, FindsEverythingRegisteredUnderTheAuditor)
{
	TemporaryDirectory home;
	const Outcome outcome = run(host(), { { "XDG_CACHE_HOME", home.path() },
					      { "LD_AUDIT", built("AUDITOR") } });

	expect_complete_stacks(outcome);
	EXPECT_NE(outcome.out.find("0 objects registered at the start"), std::string::npos)
		<< outcome.out;
}

} // namespace
