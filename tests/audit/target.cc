// SPDX-License-Identifier: MIT
//
// A program that does as its arguments say, one after the other, and writes
// what came of it, without a word about registration: what it writes must be
// the same with and without us.
//
//	open:PATH nodelete:PATH deep:PATH noload:PATH	dlopen(); the handle is pushed
//	self:		dlopen(NULL)
//	space:PATH	dlmopen() into a new namespace
//	close:		dlclose() of the last handle
//	call:NAME	call a function of the last handle, write what it returns
//	where:		directory-less name of the last handle's object
//	pause:		write "paused" and wait for a line
//	fork:		the child does the rest, the parent waits for it and exits
//	env:NAME	write a variable, or that there is none
//	shell:COMMAND	system()
//	fds:		the number of open descriptors
//	repeat:N:PATH	open and close a library N times
//	each:N:PREFIX	open PREFIX0.so to PREFIX(N-1).so, then close them all
//	exit:N		exit with N
//	abort:		abort()
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

std::vector<void *> handles;

void push(void *handle)
{
	if (handle) {
		handles.push_back(handle);
		puts("ok");
	} else {
		printf("failed: %s\n", dlerror());
	}
}

void close_last()
{
	printf("closed %d\n", dlclose(handles.back()));
	handles.pop_back();
}

void call(const char *name)
{
	auto function = reinterpret_cast<int (*)()>(dlsym(handles.back(), name));

	if (function)
		printf("%s %d\n", name, function());
	else
		printf("no %s\n", name);
}

void where()
{
	struct link_map *map = nullptr;

	dlinfo(handles.back(), RTLD_DI_LINKMAP, &map);
	const char *slash = map ? strrchr(map->l_name, '/') : nullptr;
	printf("%s\n", slash ? slash + 1 : "?");
}

void wait_for_line()
{
	char line[16];

	puts("paused");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		exit(0);
}

void split()
{
	fflush(stdout);
	const pid_t pid = fork();
	if (pid > 0) {
		int status;

		waitpid(pid, &status, 0);
		exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
	}
}

int descriptors()
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

void repeat(const char *argument)
{
	char *path;
	long n = strtol(argument, &path, 10);

	for (path++; n-- > 0;) {
		void *handle = dlopen(path, RTLD_NOW);
		if (!handle || dlclose(handle) != 0) {
			printf("failed: %s\n", dlerror());
			return;
		}
	}
	puts("repeated");
}

void each(const char *argument)
{
	char *prefix;
	const long n = strtol(argument, &prefix, 10);
	std::vector<void *> loaded;

	for (long i = 0; i < n; i++) {
		void *handle = dlopen((prefix + 1 + std::to_string(i) + ".so").c_str(), RTLD_NOW);
		if (!handle) {
			printf("failed: %s\n", dlerror());
			return;
		}
		loaded.push_back(handle);
	}
	printf("opened %zu\n", loaded.size());
	wait_for_line();
	for (void *handle : loaded)
		dlclose(handle);
	puts("closed all");
}

bool act(const std::string &verb, const char *argument)
{
	if (verb == "open")
		push(dlopen(argument, RTLD_NOW));
	else if (verb == "nodelete")
		push(dlopen(argument, RTLD_NOW | RTLD_NODELETE));
	else if (verb == "deep")
		push(dlopen(argument, RTLD_NOW | RTLD_DEEPBIND));
	else if (verb == "noload")
		push(dlopen(argument, RTLD_NOW | RTLD_NOLOAD));
	else if (verb == "self")
		push(dlopen(nullptr, RTLD_NOW));
	else if (verb == "space")
		push(dlmopen(LM_ID_NEWLM, argument, RTLD_NOW));
	else if (verb == "close")
		close_last();
	else if (verb == "call")
		call(argument);
	else if (verb == "where")
		where();
	else if (verb == "pause")
		wait_for_line();
	else if (verb == "fork")
		split();
	else if (verb == "env")
		printf("%s=%s\n", argument, getenv(argument) ? getenv(argument) : "(none)");
	else if (verb == "shell")
		printf("status %d\n", (fflush(stdout), system(argument)));
	else if (verb == "fds")
		printf("descriptors %d\n", descriptors());
	else if (verb == "repeat")
		repeat(argument);
	else if (verb == "each")
		each(argument);
	else if (verb == "exit")
		exit(atoi(argument));
	else if (verb == "abort")
		abort();
	else
		return false;
	return true;
}

} // namespace

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *colon = strchr(argv[i], ':');

		if (!colon || !act(std::string(argv[i], static_cast<size_t>(colon - argv[i])), colon + 1)) {
			printf("no verb in '%s'\n", argv[i]);
			return 64;
		}
	}
	return 0;
}
