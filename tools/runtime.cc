// SPDX-License-Identifier: MIT
#include "runtime.h"

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <vector>

namespace {

constexpr int kMaxInterpreters = 4;	// the kernel's own limit on "#!" chains

std::string directory_of(const std::string &path)
{
	const size_t slash = path.rfind('/');

	return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string own_directory()
{
	char path[4096];
	const ssize_t n = readlink("/proc/self/exe", path, sizeof(path));

	return n <= 0 ? "." : directory_of(std::string(path, static_cast<size_t>(n)));
}

std::string head_of(const std::string &path, size_t size)
{
	std::string head(size, '\0');
	const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = -1;

	if (fd >= 0) {
		n = read(fd, head.data(), size);
		close(fd);
	}
	head.resize(n < 0 ? 0 : static_cast<size_t>(n));
	return head;
}

// "#! interpreter argument": the interpreter, or "".
std::string shebang(const std::string &head)
{
	if (head.compare(0, 2, "#!") != 0)
		return "";
	const size_t begin = head.find_first_not_of(" \t", 2);
	const size_t end = head.find_first_of(" \t\n", begin);

	return begin == std::string::npos ? "" : head.substr(begin, end - begin);
}

bool has_interpreter(const std::string &path, const Elf64_Ehdr &eh)
{
	const std::string head = head_of(path, eh.e_phoff + size_t{eh.e_phnum} * sizeof(Elf64_Phdr));

	for (size_t at = eh.e_phoff; at + sizeof(Elf64_Phdr) <= head.size(); at += sizeof(Elf64_Phdr)) {
		Elf64_Phdr ph;

		memcpy(&ph, head.data() + at, sizeof(ph));
		if (ph.p_type == PT_INTERP)
			return true;
	}
	return false;
}

// Why ld.so will not load our libraries into this ELF file's process.
std::string elf_obstacle(const std::string &path)
{
	const std::string head = head_of(path, sizeof(Elf64_Ehdr));
	Elf64_Ehdr eh = {};
	struct stat st;

	if (stat(path.c_str(), &st) == 0 &&
	    ((st.st_mode & S_ISUID && st.st_uid != geteuid()) ||
	     (st.st_mode & S_ISGID && st.st_mode & S_IXGRP && st.st_gid != getegid())))
		return "it is setuid or setgid";
	if (geteuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0)
		return "it has file capabilities";
	if (head.empty())
		return "it cannot be read";
	memcpy(&eh, head.data(), head.size());
	if (memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0)
		return "it is not an ELF file";
	if (eh.e_ident[EI_CLASS] == ELFCLASS32)
		return "it is a 32-bit program";
	if (head.size() < sizeof(eh) || eh.e_machine != EM_X86_64)
		return "it is for another machine";
	if (!has_interpreter(path, eh))
		return "it is statically linked";
	return "";
}

bool is_text(const std::string &head)
{
	return head.compare(0, 4, ELFMAG) != 0 && head.find('\0') == std::string::npos;
}

// Follow "#!" lines to the file that the kernel maps.
void follow_scripts(Program &program)
{
	program.linked = program.path;
	for (int i = 0; i < kMaxInterpreters; i++) {
		const std::string head = head_of(program.linked, 256);
		std::string next = shebang(head);

		if (next.empty() && i == 0 && !head.empty() && is_text(head))
			next = "/bin/sh";	// what execvp() does with it
		if (next.empty())
			break;
		program.linked = next;
	}
	program.obstacle = elf_obstacle(program.linked);
}

// As execvp() looks: EACCES is remembered while the search goes on.
int try_path(const std::string &path)
{
	struct stat st;

	if (stat(path.c_str(), &st) < 0)
		return errno;
	if (!S_ISREG(st.st_mode))
		return EACCES;
	return access(path.c_str(), X_OK) < 0 ? errno : 0;
}

volatile sig_atomic_t forward_to;

void forward(int sig, siginfo_t *info, void *)
{
	// The terminal signals the whole process group: the child has it already.
	if (forward_to > 0 && info->si_code <= 0)
		kill(forward_to, sig);
}

// Stop when the child stops, so that the shell sees the job stopped; when we
// go on, it does.
void stop_like(int pid, int sig)
{
	struct sigaction old, dfl = {};

	dfl.sa_handler = SIG_DFL;
	if (sig != SIGSTOP)
		sigaction(sig, &dfl, &old);
	raise(sig);
	if (sig != SIGSTOP)
		sigaction(sig, &old, nullptr);
	kill(pid, SIGCONT);
}

} // namespace

std::string runtime_library(const char *name)
{
	std::vector<std::string> places;
	const std::string own = own_directory();

	if (const char *set = getenv("SFRAME_LIBDIR"))
		places = { set };
	else
		places = { own + "/../rtld-audit", own + "/record", own,
			   own + "/../" SFRAME_LIBDIR_NAME "/sframe", SFRAME_LIBDIR_INSTALLED };
	for (const std::string &place : places) {
		char resolved[PATH_MAX];

		// LD_AUDIT and LD_PRELOAD are lists: no colons or spaces in an entry.
		if (realpath((place + "/" + name).c_str(), resolved) &&
		    !strpbrk(resolved, ": \t\n"))
			return resolved;
	}
	return "";
}

Program find_program(const char *name)
{
	Program program;
	const char *path = getenv("PATH");
	const std::string dirs = path ? path : "/bin:/usr/bin";

	program.error = ENOENT;
	if (strchr(name, '/')) {
		program.error = try_path(name);
		program.path = name;
	} else if (*name) {
		for (size_t at = 0; at <= dirs.size() && program.error;) {
			size_t end = dirs.find(':', at);

			if (end == std::string::npos)
				end = dirs.size();
			const std::string dir = end == at ? "." : dirs.substr(at, end - at);
			const int error = try_path(dir + "/" + name);
			if (error == 0) {
				program.path = dir + "/" + name;
				program.error = 0;
			} else if (error == EACCES) {
				program.error = EACCES;
			}
			at = end + 1;
		}
	}
	if (program.error)
		program.path.clear();
	else
		follow_scripts(program);
	return program;
}

int exec_program(const Program &program, char *const argv[])
{
	execv(program.path.c_str(), argv);
	const int error = errno;
	if (error != ENOEXEC || !is_text(head_of(program.path, 256))) {
		errno = error;
		return -1;
	}
	std::vector<char *> shell = { const_cast<char *>("/bin/sh"),
				      const_cast<char *>(program.path.c_str()) };
	for (int i = 1; argv[0] && argv[i]; i++)
		shell.push_back(argv[i]);
	shell.push_back(nullptr);
	execv(shell[0], shell.data());
	return -1;
}

void prepend_variable(const char *name, const std::string &entry)
{
	const char *old = getenv(name);

	setenv(name, (old && *old ? entry + ":" + old : entry).c_str(), 1);
}

int wait_for(int pid)
{
	constexpr int kForwarded[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH };
	struct sigaction act = {};
	int status = 0;

	forward_to = pid;
	act.sa_sigaction = forward;
	act.sa_flags = SA_SIGINFO | SA_RESTART;
	for (const int sig : kForwarded)
		sigaction(sig, &act, nullptr);
	for (;;) {
		if (waitpid(pid, &status, WUNTRACED) < 0) {
			if (errno == EINTR)
				continue;
			break;
		}
		if (!WIFSTOPPED(status))
			break;
		stop_like(pid, WSTOPSIG(status));
	}
	forward_to = 0;
	return status;
}

void end_like(int status)
{
	if (!WIFSIGNALED(status))
		_exit(WEXITSTATUS(status));
	const int sig = WTERMSIG(status);
	const struct rlimit none = { 0, 0 };
	struct sigaction dfl = {};
	sigset_t set;

	// The core, if any, is the program's: none of ours on top of it.
	setrlimit(RLIMIT_CORE, &none);
	dfl.sa_handler = SIG_DFL;
	sigaction(sig, &dfl, nullptr);
	sigemptyset(&set);
	sigaddset(&set, sig);
	sigprocmask(SIG_UNBLOCK, &set, nullptr);
	raise(sig);
	_exit(128 + sig);
}
