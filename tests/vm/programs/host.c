/* SPDX-License-Identifier: MIT */
/*
 * host ROUNDS PLUGIN [PLUGIN...]: loads each plugin in turn, burns time in it in
 * the main thread and in a second one, and unloads it before the next. Plugins
 * of one size land at one address.
 *
 *	main -> serve -> host_1..host_8 -> enter -> library_entry -> library_1 -> library_2 -> last
 *	     -> plugin_entry -> recurse... -> plugin_1 -> plugin_2 -> plugin_leaf
 */
#include "spin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int rounds;
static __thread plugin_fn target;

__attribute__((noinline, noclone)) static unsigned long enter(unsigned long n)
{
	volatile unsigned long keep = library_entry(n, target);
	return keep + 1;
}

/* So many that start files without .sframe are less than a tenth of the functions. */
CHAIN(host_8, enter)
CHAIN(host_7, host_8)
CHAIN(host_6, host_7)
CHAIN(host_5, host_6)
CHAIN(host_4, host_5)
CHAIN(host_3, host_4)
CHAIN(host_2, host_3)
CHAIN(host_1, host_2)

__attribute__((noinline, noclone)) static unsigned long serve(plugin_fn plugin)
{
	volatile unsigned long sum = 0;
	target = plugin;
	for (int i = 0; i < rounds; i++)
		sum += host_1((unsigned long)i);
	return sum;
}

static void *worker(void *plugin)
{
	plugin_fn function;
	*(void **)&function = plugin;
	return (void *)serve(function);
}

static long long nanoseconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int argc, char **argv)
{
	if (argc < 3 || (rounds = atoi(argv[1])) <= 0) {
		fprintf(stderr, "usage: host ROUNDS PLUGIN...\n");
		return 2;
	}
	for (int i = 2; i < argc; i++) {
		void *handle = dlopen(argv[i], RTLD_NOW);
		void *entry = handle ? dlsym(handle, "plugin_entry") : NULL;
		pthread_t thread;
		long long begin = nanoseconds();
		if (!entry || pthread_create(&thread, NULL, worker, entry)) {
			fprintf(stderr, "host: %s\n", dlerror());
			return 1;
		}
		worker(entry);
		pthread_join(thread, NULL);
		printf("host: %s at %p, %lld ns\n", argv[i], entry, nanoseconds() - begin);
		dlclose(handle);
	}
	return 0;
}
