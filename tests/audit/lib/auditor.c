/* SPDX-License-Identifier: MIT */
/* Another auditor, which asks for nothing. */
#include <link.h>

unsigned int la_version(unsigned int offered)
{
	return offered;
}
