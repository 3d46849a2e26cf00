// SPDX-License-Identifier: MIT
//
// Taking a library out of list variables, in place.
#include <gtest/gtest.h>
#include <string>
#include <vector>
#include "../../rtld-audit/environment.h"

namespace {

class Block {
public:
	explicit Block(std::vector<std::string> entries) : entries_(std::move(entries))
	{
		for (std::string &entry : entries_)
			envp_.push_back(entry.data());
		envp_.push_back(nullptr);
	}
	char **envp() { return envp_.data(); }
	std::vector<std::string> now() const
	{
		std::vector<std::string> list;

		for (size_t i = 0; envp_[i]; i++)
			list.push_back(envp_[i]);
		return list;
	}

private:
	std::vector<std::string> entries_;
	std::vector<char *> envp_;
};

std::vector<std::string> without(const std::string &variable, bool spaces = false)
{
	Block block({ "A=1", variable, "B=2" });

	sframe::remove_from_list(block.envp(), spaces ? "LD_PRELOAD" : "LD_AUDIT", "l.so", spaces);
	return block.now();
}

using List = std::vector<std::string>;

TEST(RemoveFromList, AloneTakesTheVariable)
{
	EXPECT_EQ(without("LD_AUDIT=/x/l.so"), (List{ "A=1", "B=2" }));
	EXPECT_EQ(without("LD_AUDIT=l.so"), (List{ "A=1", "B=2" }));
	EXPECT_EQ(without("LD_AUDIT=l.so:/y/l.so"), (List{ "A=1", "B=2" }));
}

TEST(RemoveFromList, OthersStayInOrder)
{
	EXPECT_EQ(without("LD_AUDIT=/a:/x/l.so:/b"), (List{ "A=1", "LD_AUDIT=/a:/b", "B=2" }));
	EXPECT_EQ(without("LD_AUDIT=/x/l.so:/a:/b"), (List{ "A=1", "LD_AUDIT=/a:/b", "B=2" }));
	EXPECT_EQ(without("LD_AUDIT=/a:/b:/x/l.so"), (List{ "A=1", "LD_AUDIT=/a:/b", "B=2" }));
	EXPECT_EQ(without("LD_PRELOAD=/a /x/l.so:/b", true),
		  (List{ "A=1", "LD_PRELOAD=/a:/b", "B=2" }));
}

TEST(RemoveFromList, NamesakesStay)
{
	EXPECT_EQ(without("LD_AUDIT=/x/al.so"), (List{ "A=1", "LD_AUDIT=/x/al.so", "B=2" }));
	EXPECT_EQ(without("LD_AUDIT=/x/l.so.1"), (List{ "A=1", "LD_AUDIT=/x/l.so.1", "B=2" }));
	EXPECT_EQ(without("LD_AUDIT=/l.so/x"), (List{ "A=1", "LD_AUDIT=/l.so/x", "B=2" }));
	EXPECT_EQ(without("LD_AUDIT_X=l.so"), (List{ "A=1", "LD_AUDIT_X=l.so", "B=2" }));
	EXPECT_EQ(without("LD_AUDIT="), (List{ "A=1", "LD_AUDIT=", "B=2" }));
}

TEST(RemoveFromList, EveryMentionOfTheVariable)
{
	Block block({ "LD_AUDIT=l.so", "LD_AUDIT=/a:l.so", "LD_AUDIT=l.so" });

	sframe::remove_from_list(block.envp(), "LD_AUDIT", "l.so", false);
	EXPECT_EQ(block.now(), (List{ "LD_AUDIT=/a" }));
}

TEST(RemoveVariable, Whole)
{
	Block block({ "X=1", "XY=2", "X=3" });

	sframe::remove_variable(block.envp(), "X");
	EXPECT_EQ(block.now(), (List{ "XY=2" }));
}

} // namespace
