// SPDX-License-Identifier: MIT
//
// Running programs from tests: arguments, environment, what they wrote, how
// they ended; and a directory that goes away with the test.
#pragma once

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <poll.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

struct Outcome {
	int status = -1;	// as waitpid() says
	std::string out, err;

	bool exited(int code) const { return WIFEXITED(status) && WEXITSTATUS(status) == code; }
	bool killed(int sig) const { return WIFSIGNALED(status) && WTERMSIG(status) == sig; }
};

using Strings = std::vector<std::string>;
using Environment = std::map<std::string, std::string>;

class TemporaryDirectory {
public:
	TemporaryDirectory()
	{
		char name[] = "/tmp/sframe-test.XXXXXX";

		path_ = mkdtemp(name) ? name : "/nonexistent";
	}
	~TemporaryDirectory()
	{
		std::error_code ignored;

		std::filesystem::remove_all(path_, ignored);
	}
	TemporaryDirectory(const TemporaryDirectory &) = delete;
	TemporaryDirectory &operator=(const TemporaryDirectory &) = delete;

	const std::string &path() const { return path_; }
	std::string operator/(const std::string &name) const { return path_ + "/" + name; }

private:
	std::string path_;
};

// A started program, its output readable until finish().
class Process {
public:
	// @environment is added to the test's own; an empty value removes.
	// @prepare runs in the child before the exec.
	explicit Process(const Strings &argv, const Environment &environment = {},
			 void (*prepare)() = nullptr)
	{
		int in[2], out[2], err[2];

		if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 ||
		    pipe2(err, O_CLOEXEC) < 0)
			return;
		pid_ = fork();
		if (pid_ == 0) {
			dup2(in[0], 0);
			dup2(out[1], 1);
			dup2(err[1], 2);
			start(argv, environment, prepare);
		}
		close(in[0]);
		close(out[1]);
		close(err[1]);
		in_ = in[1];
		fd_[0] = out[0];
		fd_[1] = err[0];
	}
	~Process()
	{
		if (pid_ > 0) {
			kill(pid_, SIGKILL);
			finish();
		}
	}
	Process(const Process &) = delete;
	Process &operator=(const Process &) = delete;

	int pid() const { return pid_; }

	// Write to the program's standard input.
	void say(const std::string &text)
	{
		if (write(in_, text.data(), text.size()) < 0)
			outcome_.err += "[input closed]";
	}

	// Wait until the program has written @text on its standard output.
	bool wait_for(const std::string &text)
	{
		while (outcome_.out.find(text) == std::string::npos)
			if (!read_some())
				return false;
		return true;
	}

	// Ends its input, reads what is left, waits for the end.
	Outcome finish()
	{
		if (in_ >= 0)
			close(in_);
		in_ = -1;
		while (read_some())
			;
		if (pid_ > 0)
			waitpid(pid_, &outcome_.status, 0);
		pid_ = -1;
		return outcome_;
	}

private:
	[[noreturn]] static void start(const Strings &argv, const Environment &environment,
				       void (*prepare)())
	{
		std::vector<char *> args;

		for (const std::string &arg : argv)
			args.push_back(const_cast<char *>(arg.c_str()));
		args.push_back(nullptr);
		for (const auto &[name, value] : environment)
			if (value.empty())
				unsetenv(name.c_str());
			else
				setenv(name.c_str(), value.c_str(), 1);
		if (prepare)
			prepare();
		execvp(args[0], args.data());
		_exit(127);
	}

	bool read_some()
	{
		struct pollfd fds[2] = { { fd_[0], POLLIN, 0 }, { fd_[1], POLLIN, 0 } };
		std::string *texts[2] = { &outcome_.out, &outcome_.err };

		if (fd_[0] < 0 && fd_[1] < 0)
			return false;
		if (poll(fds, 2, 60000) <= 0)
			return false;
		for (int i = 0; i < 2; i++) {
			char buffer[65536];

			if (!fds[i].revents)
				continue;
			const ssize_t n = read(fd_[i], buffer, sizeof(buffer));
			if (n > 0) {
				texts[i]->append(buffer, static_cast<size_t>(n));
			} else {
				close(fd_[i]);
				fd_[i] = -1;
			}
		}
		return fd_[0] >= 0 || fd_[1] >= 0;
	}

	int pid_ = -1;
	int in_ = -1;
	int fd_[2] = { -1, -1 };
	Outcome outcome_;
};

inline Outcome run(const Strings &argv, const Environment &environment = {},
		   void (*prepare)() = nullptr)
{
	return Process(argv, environment, prepare).finish();
}

inline std::string built(const char *variable)
{
	const char *path = getenv(variable);

	return path ? path : "";
}
