// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <cstdlib>
#include <string>
#include "progress.h"

namespace {

class Screen {
public:
	Screen() : file_(open_memstream(&text_, &size_)) {}
	~Screen()
	{
		fclose(file_);
		free(text_);
	}
	Screen(const Screen &) = delete;
	Screen &operator=(const Screen &) = delete;
	FILE *file() { return file_; }
	std::string text()
	{
		fflush(file_);
		return { text_, size_ };
	}

private:
	char *text_ = nullptr;
	size_t size_ = 0;
	FILE *file_;
};

TEST(Progress, SilentWithoutATerminal)
{
	Screen screen;
	Progress progress("work", 2, screen.file(), false);

	progress.step();
	progress.step();
	progress.finish();
	EXPECT_EQ(screen.text(), "");
}

TEST(Progress, LinesComeWithoutATerminalToo)
{
	Screen screen;
	Progress progress("work", 2, screen.file(), false);

	progress.line("%s is bad", "a.so");
	EXPECT_EQ(screen.text(), "a.so is bad\n");
}

TEST(Progress, ABarGrowsAndGoesAway)
{
	Screen screen;
	Progress progress("work", 4, screen.file(), true);

	progress.step(2);
	EXPECT_NE(screen.text().find("work [################                ] 2/4"),
		  std::string::npos)
		<< screen.text();
	progress.step(2);
	EXPECT_NE(screen.text().find("4/4"), std::string::npos);
	progress.finish();
	EXPECT_TRUE(screen.text().ends_with("\r\033[K"));
	const std::string last = screen.text();
	progress.step();
	EXPECT_EQ(screen.text(), last);
}

TEST(Progress, ALineStandsAboveTheBar)
{
	Screen screen;
	Progress progress("work", 2, screen.file(), true);

	progress.step();
	progress.line("a.so is bad");
	const std::string text = screen.text();
	const size_t line = text.find("\r\033[Ka.so is bad\n");
	ASSERT_NE(line, std::string::npos) << text;
	EXPECT_NE(text.find("1/2", line), std::string::npos);
}

TEST(Progress, RedrawnOnlyWhenThePictureChanges)
{
	Screen screen;
	Progress progress("work", 1000000, screen.file(), true);

	for (int i = 0; i < 1000000; i++)
		progress.step();
	EXPECT_LT(screen.text().size(), 100000U);
}

} // namespace
