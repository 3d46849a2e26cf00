/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The core as the kernel compiles it: no libc header, the kernel's flags, a
 * limit for the stack, accessors that may fault. That it compiles is the test,
 * and that the object asks for nothing but memory functions and the accessors.
 */
unsigned long copy_from_user_nofault(void *to, unsigned long from, unsigned long size);

#define SFRAME_CORE_READ(io, to, address, size) copy_from_user_nofault(to, address, size)
#define SFRAME_CORE_REG(io, number, value) (-1)
#define SFRAME_CORE_RMB() __asm__ volatile("" ::: "memory")
#include "sframe_core.h"

int sframe_kernel_step(uint64_t section, uint64_t size, struct sframe_frame *frame);

int sframe_kernel_step(uint64_t section, uint64_t size, struct sframe_frame *frame)
{
	struct sframe_section sec;
	int status = sframe_section_parse(&sec, section, size, 0, 0, NULL);

	return status ? status : sframe_step(&sec, frame, NULL);
}
