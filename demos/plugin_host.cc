// SPDX-License-Identifier: MIT
//
// A program that loads plugins and prints its own stack when they call back.
// Neither it nor they keep frame pointers: the stack is walked by SFrame.
#include <cstdio>
#include <dlfcn.h>
#include <link.h>
#include <sframe/register.h>
#include <sframe/unwind.h>
#include "plugin.h"

namespace {

// A return address may be the first byte behind its function: look before it.
void print_frame(int number, uint64_t pc)
{
	const auto *address = reinterpret_cast<const void *>(number ? pc - 1 : pc);
	Dl_info info;

	if (!dladdr(address, &info)) {
		printf("  #%-2d %#lx\n", number, pc);
		return;
	}
	const char *file = info.dli_fname;
	for (const char *at = file; *at; at++)
		if (*at == '/')
			file = at + 1;
	printf("  #%-2d %s in %s\n", number, info.dli_sname ? info.dli_sname : "?", file);
}

void print_stack()
{
	uint64_t pcs[64];
	struct sframe_trace trace = {};

	trace.size = sizeof(trace);
	const int n = sframe_backtrace(pcs, 64, &trace);
	for (int i = 0; i < n; i++)
		print_frame(i, pcs[i]);
	printf("  %s: %u steps by SFrame, %u by frame pointer\n",
	       trace.stop == SFRAME_STOP_OUTERMOST ? "complete" : sframe_stop_name(trace.stop),
	       trace.frames_sframe, trace.frames_fp);
}

void report(const char *what, long value)
{
	printf("%s: %ld\n", what, value);
	print_stack();
}

bool run_plugin(const char *path)
{
	static const plugin_host host = { report };
	void *handle = dlopen(path, RTLD_NOW);

	if (!handle) {
		fprintf(stderr, "plugin-host: %s\n", dlerror());
		return false;
	}
	// Without libsframe-audit.so nobody else tells that something was loaded.
	sframe_register_loaded();
	auto run = reinterpret_cast<void (*)(const plugin_host *)>(dlsym(handle, "plugin_run"));
	if (run)
		run(&host);
	else
		fprintf(stderr, "plugin-host: %s has no plugin_run()\n", path);
	return run != nullptr;
}

} // namespace

int main(int argc, char **argv)
{
	bool good = true;

	if (argc < 2) {
		fputs("Usage: plugin-host PLUGIN.so...\n", stderr);
		return 2;
	}
	printf("%d objects registered at the start\n", sframe_register_loaded());
	for (int i = 1; i < argc; i++)
		good = run_plugin(argv[i]) && good;
	return good ? 0 : 1;
}
