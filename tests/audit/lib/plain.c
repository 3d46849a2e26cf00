/* SPDX-License-Identifier: MIT */
/* A library with two functions of its own, one of them with a frame. */
int answer(void);
int deep(int n);

int deep(int n)
{
	volatile char room[64];

	room[n & 63] = (char)n;
	return n > 0 ? deep(n - 1) + room[n & 63] : 0;
}

int answer(void)
{
	return 42;
}
