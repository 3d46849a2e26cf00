// SPDX-License-Identifier: MIT
//
// The programs that tests/toolchain/fetch fetched, and running them. Tests
// that cannot have them are skipped by name:
//
//	SFRAME_NEED_TOOL(readelf, "readelf-2.47");
//	toolchain::Result r = toolchain::run({ readelf, "--sframe", path });
//	ASSERT_EQ(r.status, 0) << r.errors;
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace toolchain {

inline std::filesystem::path directory()
{
	const char *dir = getenv("SFRAME_TOOLCHAIN_DIR");
	return dir && *dir ? dir : SFRAME_TOOLCHAIN_DEFAULT;
}

// Path of a program, or "" if it has not been fetched.
inline std::string find(const std::string &name)
{
	auto path = directory() / "bin" / name;
	return access(path.c_str(), X_OK) == 0 ? path.string() : std::string();
}

// A directory that goes away with the test.
class TempDir {
public:
	TempDir()
	{
		char name[] = "/tmp/sframe-test-XXXXXX";
		if (!mkdtemp(name))
			std::abort();
		path_ = name;
	}
	~TempDir()
	{
		std::error_code ignored;
		std::filesystem::remove_all(path_, ignored);
	}
	TempDir(const TempDir &) = delete;
	TempDir &operator=(const TempDir &) = delete;
	std::string operator/(const std::string &name) const { return (path_ / name).string(); }

private:
	std::filesystem::path path_;
};

inline std::string read_file(const std::string &path)
{
	std::ifstream in(path, std::ios::binary);
	std::stringstream text;

	text << in.rdbuf();
	return text.str();
}

inline void write_file(const std::string &path, const std::string &content)
{
	std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

struct Result {
	int status;		// exit status, or 128 + signal
	std::string output;	// stdout
	std::string errors;	// stderr
};

// Runs a program to its end.
inline Result run(const std::vector<std::string> &command)
{
	TempDir tmp;
	std::vector<char *> argv;
	int status = 0;

	for (const std::string &arg : command)
		argv.push_back(const_cast<char *>(arg.c_str()));
	argv.push_back(nullptr);
	std::string out = tmp / "out", err = tmp / "err";
	pid_t pid = fork();
	if (pid == 0) {
		if (!freopen(out.c_str(), "w", stdout) || !freopen(err.c_str(), "w", stderr))
			_exit(126);
		execvp(argv[0], argv.data());
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return { 126, "", "cannot run " + command[0] };
	return { WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_file(out),
		 read_file(err) };
}

} // namespace toolchain

// Declares @variable with the path of a fetched program; skips the test without it.
#define SFRAME_NEED_TOOL(variable, name)                                                          \
	const std::string variable = toolchain::find(name);                                       \
	if (variable.empty())                                                                     \
	GTEST_SKIP() << name << " is not in " << toolchain::directory()                           \
		     << ": run tests/toolchain/fetch"
