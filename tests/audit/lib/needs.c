/* SPDX-License-Identifier: MIT */
/* Linked against plain.c's library: opening this one opens two. */
int answer(void);
int twice(void);

int twice(void)
{
	return answer() * 2;
}
