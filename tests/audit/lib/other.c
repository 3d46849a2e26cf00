/* SPDX-License-Identifier: MIT */
/* Built like plain.c, of the same size in memory, with other code in it. */
int answer(void);
int other(int n);

int other(int n)
{
	return n > 1 ? other(n - 1) + other(n - 2) : n;
}

int answer(void)
{
	return other(9) + 9;	/* 43 */
}
