/* SPDX-License-Identifier: MIT */
/* A program that no dynamic linker has a say in. */
#include <stdio.h>

int main(void)
{
	puts("static");
	return 0;
}
