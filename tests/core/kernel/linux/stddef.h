/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef _LINUX_STDDEF_H
#define _LINUX_STDDEF_H
#define NULL ((void *)0)
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
