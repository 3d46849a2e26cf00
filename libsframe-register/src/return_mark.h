/* SPDX-License-Identifier: MIT */
/*
 * libsframe-preload.so lets dlopen() return through a ret in its caller's text
 * (rtld-audit/preload_entry.S). The code that this ret leads to begins with an
 * instruction that does nothing, nopl SFRAME_RETURN_MARK(%rax), by which
 * unwinders tell such a return address from a stray number. Included by
 * assembly, too.
 */
#ifndef SFRAME_RETURN_MARK
#define SFRAME_RETURN_MARK 0x65724653
#endif
