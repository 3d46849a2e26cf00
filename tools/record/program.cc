// SPDX-License-Identifier: MIT
#include "program.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <vector>

namespace sframe::record {

namespace {

constexpr int MAX_INTERPRETERS = 4;	// scripts naming scripts, as the kernel allows

int executable(const std::string &path)
{
	struct stat st;

	if (stat(path.c_str(), &st) < 0)
		return errno;
	if (!S_ISREG(st.st_mode) || access(path.c_str(), X_OK) < 0)
		return EACCES;
	return 0;
}

// PATH's order; a file that may not be executed counts only if no other is found.
Program find_program(const char *name)
{
	Program found;

	if (strchr(name, '/')) {
		found.error = executable(name);
		found.path = name;
		return found;
	}
	const char *path = getenv("PATH");
	found.error = ENOENT;
	for (const char *at = path ? path : "/bin:/usr/bin"; at;) {
		const char *const end = strchrnul(at, ':');
		std::string candidate = end == at ? "." : std::string(at, end);
		candidate += std::string("/") + name;
		const int err = executable(candidate);
		if (!err)
			return { candidate, 0, "", false };
		if (err == EACCES)
			found = { candidate, err, "", false };
		at = *end ? end + 1 : nullptr;
	}
	return found;
}

std::string interpreter_of(const std::vector<unsigned char> &head, const Elf64_Ehdr &eh)
{
	for (size_t i = 0; i < eh.e_phnum; i++) {
		Elf64_Phdr ph;
		const uint64_t at = eh.e_phoff + i * sizeof(ph);
		if (at > head.size() || head.size() - at < sizeof(ph))
			break;
		memcpy(&ph, head.data() + at, sizeof(ph));
		if (ph.p_type == PT_INTERP && ph.p_offset < head.size() &&
		    ph.p_filesz <= head.size() - ph.p_offset && ph.p_filesz)
			return std::string(reinterpret_cast<const char *>(head.data()) + ph.p_offset,
					   ph.p_filesz - 1);
	}
	return "";
}

void judge_elf(const std::vector<unsigned char> &head, Program *program)
{
	Elf64_Ehdr eh;

	memcpy(&eh, head.data(), sizeof(eh));
	if (eh.e_ident[EI_CLASS] != ELFCLASS64 || eh.e_machine != EM_X86_64) {
		program->obstacle = eh.e_ident[EI_CLASS] == ELFCLASS32 ? "it is a 32-bit program" :
									   "it is not for x86-64";
		program->keep_environment = true;
		return;
	}
	const std::string loader = interpreter_of(head, eh);
	if (loader.empty()) {
		program->obstacle = "it is statically linked";
	} else if (loader.rfind("/ld-linux-x86-64.so.2") == std::string::npos) {
		program->obstacle = "its loader is " + loader + ", not glibc's";
		program->keep_environment = true;
	}
}

bool privileged(const std::string &path)
{
	struct stat st;

	if (stat(path.c_str(), &st) < 0)
		return false;
	return ((st.st_mode & S_ISUID) && st.st_uid != geteuid()) ||
	       ((st.st_mode & S_ISGID) && st.st_gid != getegid()) ||
	       (geteuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0);
}

// "#!/usr/bin/perl -w" gives /usr/bin/perl.
std::string script_interpreter(const std::vector<unsigned char> &head)
{
	const char *const text = reinterpret_cast<const char *>(head.data());
	const size_t line = strcspn(text, "\n");
	const std::string first(text + 2, line > 2 ? line - 2 : 0);
	const size_t begin = first.find_first_not_of(" \t");

	if (begin == std::string::npos)
		return "";
	return first.substr(begin, first.find_first_of(" \t\r", begin) - begin);
}

void judge(const std::string &path, int depth, Program *program)
{
	std::vector<unsigned char> head(16384);
	const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);

	if (privileged(path))
		program->obstacle = "it runs with other privileges than yours";
	if (fd < 0 || !program->obstacle.empty()) {	// unreadable is no obstacle by itself
		if (fd >= 0)
			close(fd);
		return;
	}
	const ssize_t n = pread(fd, head.data(), head.size() - 1, 0);
	close(fd);
	head.resize(n > 0 ? n + 1 : 1);
	head.back() = 0;
	if (n >= static_cast<ssize_t>(sizeof(Elf64_Ehdr)) && !memcmp(head.data(), ELFMAG, SELFMAG)) {
		judge_elf(head, program);
	} else if (n > 2 && head[0] == '#' && head[1] == '!' && depth < MAX_INTERPRETERS) {
		const std::string interpreter = script_interpreter(head);
		if (!interpreter.empty())
			judge(interpreter, depth + 1, program);
	}
}

} // namespace

Program look_at_program(const char *name)
{
	Program program = find_program(name);

	if (!program.error)
		judge(program.path, 0, &program);
	return program;
}

} // namespace sframe::record
