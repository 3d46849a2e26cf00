/* SPDX-License-Identifier: MIT */
/*
 * dlopen() and dlmopen() as the program sees them under libsframe-preload.so.
 *
 * glibc takes the return address of dlopen() for "the caller": whose RUNPATH
 * and $ORIGIN hold, into whose namespace the library goes. A wrapper that calls
 * dlopen() becomes the caller and breaks all three. One that jumps to it does
 * not, but nothing of ours runs after it.
 *
 * So the return address that dlopen() sees is that of an epilogue in the real
 * caller's own text, right behind a call, and what the epilogue returns to is
 * ours. Unwinders find a frame of the caller's object there that is laid out as
 * its CFI says. sframe_preload_plan() finds the site G (return_site.h); S is the
 * stack pointer at the entry, R the real return address:
 *
 *	kind		 S-32	    S-24	   S-16	 S-8	 S
 *	0 ret				   	   G	 2f	 R
 *	1 add $8; ret	 G	    room	   1f	 room	 R
 *	2 leave; ret	 G	    old rbp	   1f	 room	 R
 *
 * Calls want the stack pointer at a multiple of 16; each kind keeps to it. If
 * there is no site, dlopen() is jumped to with R: exactly as without us, and the
 * next call makes up for it.
 */
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
	sub	$32, %rsp
	.cfi_adjust_cfa_offset 32
	mov	%rsp, %rdi		/* struct Plan */
	mov	56(%rsp), %rsi		/* R */
	mov	$\which, %edx
	call	sframe_preload_plan
	mov	(%rsp), %rax		/* the real function */
	mov	8(%rsp), %rcx		/* G */
	mov	16(%rsp), %r8		/* kind */
	add	$32, %rsp
	.cfi_adjust_cfa_offset -32
	pop	%rdx
	.cfi_adjust_cfa_offset -8
	pop	%rsi
	.cfi_adjust_cfa_offset -8
	pop	%rdi
	.cfi_adjust_cfa_offset -8
	test	%rcx, %rcx
	jz	sframe_preload_jump
	test	%r8, %r8
	jz	sframe_preload_ret
	cmp	$1, %r8
	je	sframe_preload_add
	jmp	sframe_preload_leave
	.cfi_endproc
	.size	\name, . - \name
	.endm

	ENTRY	dlopen, 0
	ENTRY	dlmopen, 1

	.type	sframe_preload_paths, @function
sframe_preload_paths:
	.cfi_startproc
sframe_preload_jump:
	jmp	*%rax

sframe_preload_ret:
	lea	2f(%rip), %r11
	push	%r11
	.cfi_adjust_cfa_offset 8
	push	%rcx
	.cfi_adjust_cfa_offset 8
	jmp	*%rax
	.cfi_adjust_cfa_offset -16

sframe_preload_add:
	lea	1f(%rip), %r11
	push	%rcx			/* room */
	.cfi_adjust_cfa_offset 8
	push	%r11
	.cfi_adjust_cfa_offset 8
	push	%rcx			/* room */
	.cfi_adjust_cfa_offset 8
	push	%rcx
	.cfi_adjust_cfa_offset 8
	jmp	*%rax
	.cfi_adjust_cfa_offset -32

sframe_preload_leave:
	lea	1f(%rip), %r11
	push	%rcx			/* room */
	.cfi_adjust_cfa_offset 8
	push	%r11
	.cfi_adjust_cfa_offset 8
	push	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_offset %rbp, -32
	mov	%rsp, %rbp
	push	%rcx
	.cfi_adjust_cfa_offset 8
	jmp	*%rax
	.cfi_restore %rbp
	.cfi_endproc
	.size	sframe_preload_paths, . - sframe_preload_paths

	/*
	 * Where G leads. Unwinders want a return address to be right behind a
	 * call, and its CFI to be that of the call: these are never executed.
	 */
	.type	sframe_preload_after, @function
sframe_preload_after:
	.cfi_startproc
	.cfi_adjust_cfa_offset 8
	call	sframe_preload_catch_up
1:	add	$8, %rsp		/* the room */
	.cfi_adjust_cfa_offset -8
	jmp	3f
	call	sframe_preload_catch_up
2:	nop
3:	push	%rax			/* dlopen()'s answer */
	.cfi_adjust_cfa_offset 8
	call	sframe_preload_catch_up
	pop	%rax
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size	sframe_preload_after, . - sframe_preload_after

	.section .note.GNU-stack, "", @progbits
