/* SPDX-License-Identifier: MIT */
/*
 * The functions that the compilers and the library want from a libc (clang makes
 * bcmp of a memcmp that asks for equality only). The auditor lives in a link-map
 * namespace without one.
 */
#include <stddef.h>

void *memcpy(void *restrict dst, const void *restrict src, size_t n);
void *memmove(void *dst, const void *src, size_t n);
void *memset(void *dst, int byte, size_t n);
int memcmp(const void *a, const void *b, size_t n);
int bcmp(const void *a, const void *b, size_t n);
size_t strlen(const char *s);

void *memcpy(void *restrict dst, const void *restrict src, size_t n)
{
	void *to = dst;

	__asm__ volatile("rep movsb" : "+D"(to), "+S"(src), "+c"(n) : : "memory");
	return dst;
}

void *memmove(void *dst, const void *src, size_t n)
{
	unsigned char *to = dst;
	const unsigned char *from = src;

	if (to <= from || to >= from + n)
		return memcpy(dst, src, n);
	while (n--)
		to[n] = from[n];
	return dst;
}

void *memset(void *dst, int byte, size_t n)
{
	void *to = dst;

	__asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(byte) : "memory");
	return dst;
}

int memcmp(const void *a, const void *b, size_t n)
{
	const unsigned char *p = a, *q = b;

	for (; n; n--, p++, q++)
		if (*p != *q)
			return *p - *q;
	return 0;
}

int bcmp(const void *a, const void *b, size_t n)
{
	return memcmp(a, b, n);
}

size_t strlen(const char *s)
{
	size_t n = 0;

	while (s[n])
		n++;
	return n;
}
