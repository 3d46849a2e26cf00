// SPDX-License-Identifier: MIT
//
// Built without frame pointers, at -O2, into a library bound lazily.
#include "scenes.h"

#include <alloca.h>
#include <csetjmp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <sys/time.h>

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif

namespace {

volatile uint64_t sink;

// Depth and frame size vary; the sum keeps callee-saved registers busy.
template <int Words> NOINLINE uint64_t frame(int depth, uint64_t a, uint64_t b, uint64_t c)
{
	volatile uint64_t space[Words];

	for (int i = 0; i < Words; i += 16)
		space[i] = a + uint64_t(i);
	if (depth == 0)
		return space[0] + b + c;
	const uint64_t x = frame<Words>(depth - 1, b, c, a);
	const uint64_t y = frame<Words>(depth - 1, c, a, x);
	return x + y + space[0] + a * b + c;
}

NOINLINE uint64_t last(uint64_t x) 
{
	sink = x * 3;
	return x + sink;
}
NOINLINE uint64_t middle(uint64_t x)
{
	sink = x;
	return last(x + 1);
}
NOINLINE uint64_t first(uint64_t x)
{
	const uint64_t y = last(x);

	return middle(x + y);
}

jmp_buf target;

[[noreturn]] NOINLINE void leave(int value)
{
	sink = uint64_t(value);
	longjmp(target, value);
}
NOINLINE int ends_in_a_call(int value)
{
	if (value < 100)
		return value;
	leave(value);
}

NOINLINE uint64_t grow(size_t n)
{
	char *space = static_cast<char *>(alloca(n));

	memset(space, 1, n);
	if (n > 64)
		return grow(n / 2) + uint64_t(space[n - 1]);
	return last(uint64_t(space[0]));
}

__attribute__((target("avx2"))) NOINLINE uint64_t realign(size_t n)
{
	typedef uint64_t vector __attribute__((vector_size(32)));
	alignas(32) volatile vector v = { n, n + 1, n + 2, n + 3 };
	char *space = static_cast<char *>(alloca(n));

	space[0] = char(n);
	if (n > 16)
		return realign(n / 2) + v[1];
	return last(v[0]) + uint64_t(space[0]);
}

NOINLINE void jump_from(int depth)
{
	if (depth == 0)
		longjmp(target, 7);
	if (sink != 12345)
		jump_from(depth - 1);
	sink = 1;
}

struct Cleanup {
	~Cleanup() { sink = sink + 1; }
};

NOINLINE void thrower(int depth)
{
	if (depth == 0)
		throw std::runtime_error("as expected");
	if (depth % 2) {
		Cleanup cleanup;
		thrower(depth - 1);
	} else {
		thrower(depth - 1);
	}
	sink = 2;
}

int compare(const void *a, const void *b)
{
	return int(*static_cast<const int *>(a) - *static_cast<const int *>(b));
}

} // namespace

void scene_calls()
{
	sink = frame<2>(5, 1, 2, 3);
	sink = frame<40>(4, 1, 2, 3);
	sink = frame<2000>(3, 1, 2, 3);
}

void scene_tail_calls() { sink = first(5); }

void scene_noreturn()
{
	if (setjmp(target) == 0)
		sink = uint64_t(ends_in_a_call(3) + ends_in_a_call(200));
}

void scene_alloca() { sink = grow(5000); }

void scene_realigned() { sink = realign(300); }

void scene_longjmp()
{
	if (setjmp(target) == 0)
		jump_from(5);
}

void scene_throw()
{
	for (int i = 0; i < 2; i++)
		try {
			thrower(6);
		} catch (const std::exception &e) {
			sink = strlen(e.what());
		}
}

void scene_qsort()
{
	int values[60];

	for (int i = 0; i < 60; i++)
		values[i] = i * 37 % 61;
	qsort(values, 60, sizeof(int), compare);
	sink = uint64_t(values[7]);
}

void scene_libm()
{
	volatile double x = 0.75;

	sink = uint64_t(sin(x) + exp(x) + pow(x, 2.5) + tanh(x) + lgamma(x + 3) + cbrt(x));
	sink = strtoul("12345", nullptr, 0) + uint64_t(atof("3.25"));
}

void scene_memory()
{
	static char from[70000], to[70000];
	const size_t sizes[] = { 0, 1, 3, 8, 15, 17, 33, 65, 130, 260, 1000, 5000, 20000, 65000 };

	for (size_t size : sizes) {
		memcpy(to, from, size);
		memmove(to + 1, to, size);
		memmove(to, to + 1, size);
		memset(to, 5, size);
		sink = uint64_t(memcmp(to, from, size)) + strlen(from) +
		       uint64_t(memchr(to, 7, size) != nullptr);
	}
	strcpy(to, "a string");
	sink = uint64_t(strcmp(to, from)) + uint64_t(strchr(to, 'r') != nullptr) +
	       uint64_t(strstr(to, "ring") != nullptr);
}

void scene_printf()
{
	char text[200];

	snprintf(text, sizeof(text), "%f %g %.3e %s %d %p", 3.14159, 1e100, 2.5e-7, "text", 42,
		 static_cast<void *>(text));
	sink = strlen(text);
}

void scene_vdso()
{
	timespec ts;
	timeval tv;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	clock_gettime(CLOCK_REALTIME_COARSE, &ts);
	gettimeofday(&tv, nullptr);
	sink = uint64_t(ts.tv_nsec + tv.tv_usec + time(nullptr));
}

void scene_malloc()
{
	void *blocks[30];

	for (int i = 0; i < 30; i++)
		blocks[i] = malloc(size_t(1) << i % 20);
	for (void *block : blocks)
		free(block);
}

int scene_has_avx2() { return __builtin_cpu_supports("avx2"); }
