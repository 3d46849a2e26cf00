/* SPDX-License-Identifier: MIT */
/* Opens another library in its constructor and closes it in its destructor. */
#include <dlfcn.h>
#include <stddef.h>

int inner(void);

static void *opened;

__attribute__((constructor)) static void begin(void)
{
	opened = dlopen("libhidden.so", RTLD_NOW);
}

__attribute__((destructor)) static void end(void)
{
	if (opened)
		dlclose(opened);
}

int inner(void)
{
	return opened != NULL;
}
