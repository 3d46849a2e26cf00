/* SPDX-License-Identifier: MIT */
/*
 * Opens libraries itself: what it finds depends on its own RUNPATH and $ORIGIN,
 * which are its and nobody else's.
 */
#include <dlfcn.h>
#include <stddef.h>

int by_runpath(void);
int by_origin(void);
int missing(void);
int from_main(void);

static void *opened;

static int open_and_ask(const char *name)
{
	int (*answer)(void);

	opened = dlopen(name, RTLD_NOW);
	if (!opened)
		return -1;
	*(void **)&answer = dlsym(opened, "answer");
	return answer ? answer() : -2;
}

int by_runpath(void) { return open_and_ask("libhidden.so"); }
int by_origin(void) { return open_and_ask("$ORIGIN/hidden/libhidden.so"); }
int missing(void) { return open_and_ask("libnowhere.so"); }

int close_it(void);
int close_it(void)
{
	return dlclose(opened);
}
