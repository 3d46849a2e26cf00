/* SPDX-License-Identifier: MIT */
/* Code in two executable segments: .text, and a section put far from it. */
int answer(void);
int far_away(int n);

__attribute__((section("far_text"), noinline)) int far_away(int n)
{
	volatile int kept = n;

	return kept * 2;
}

int answer(void)
{
	return far_away(20) + 2;
}
