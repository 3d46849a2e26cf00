/* SPDX-License-Identifier: MIT */
/*
 * dlopen() and dlmopen() as the program sees them under libsframe-preload.so.
 *
 * glibc takes the return address of dlopen() for "the caller": whose RUNPATH
 * and $ORIGIN hold, into whose namespace the library goes. A wrapper that calls
 * dlopen() becomes the caller and breaks all three. One that jumps to it does
 * not, but nothing of ours runs after it.
 *
 * So the return address that dlopen() sees is that of a `ret` instruction in
 * the real caller's own text, and what that instruction pops is our address:
 *
 *	on entry	S:	R (real return address)
 *	at the jump	S-16:	G (a ret in the caller's object)
 *			S-8:	1f
 *			S:	R
 *
 * sframe_preload_plan() finds G such that unwinding through it is right: a
 * function that has no frame there. Where it finds none it says so by 0, and
 * dlopen() is jumped to with R: exactly as without us, and the next call makes
 * up for it.
 */
#include "return_mark.h"

	.text

	.macro ENTRY name, which
	.globl	\name
	.type	\name, @function
\name:
	.cfi_startproc
	push	%rdi
	.cfi_adjust_cfa_offset 8
	push	%rsi
	.cfi_adjust_cfa_offset 8
	push	%rdx
	.cfi_adjust_cfa_offset 8
	mov	24(%rsp), %rdi
	mov	$\which, %esi
	call	sframe_preload_plan
	mov	%rdx, %rcx		/* G */
	pop	%rdx
	.cfi_adjust_cfa_offset -8
	pop	%rsi
	.cfi_adjust_cfa_offset -8
	pop	%rdi
	.cfi_adjust_cfa_offset -8
	test	%rcx, %rcx
	jz	2f
	lea	1f(%rip), %r11
	push	%r11
	.cfi_adjust_cfa_offset 8
	push	%rcx
	.cfi_adjust_cfa_offset 8
2:	jmp	*%rax
	.cfi_endproc
	.size	\name, . - \name
	.endm

	ENTRY	dlopen, 0
	ENTRY	dlmopen, 1

	/* Where G's ret goes: rsp is S again, rax is dlopen()'s answer. */
	.type	sframe_preload_after, @function
sframe_preload_after:
	.cfi_startproc
	/*
	 * Unwinders look up the address before a return address, and may want a
	 * call there: this one is never executed.
	 */
	call	sframe_preload_catch_up
1:	nopl	SFRAME_RETURN_MARK(%rax)
	push	%rax
	.cfi_adjust_cfa_offset 8
	call	sframe_preload_catch_up
	pop	%rax
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size	sframe_preload_after, . - sframe_preload_after

	.section .note.GNU-stack, "", @progbits
