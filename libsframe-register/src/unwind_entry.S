/* SPDX-License-Identifier: MIT */
/*
 * sframe_backtrace(pcs, max, trace): the caller's registers, then the walk.
 *
 * Assembly, because the walk starts at the caller's frame: at the call's
 * return address its sp is ours plus 8, and rbx, rbp, r12 to r15 are still the
 * caller's. The library's own frames then need no unwinding, however they were
 * compiled. Builds a struct sframe_regs (registers by DWARF number, 8 bytes
 * each, then the mask of known ones and "exact") on the stack.
 */
#define REGS_SIZE	(17 * 8 + 8)
#define KNOWN		(1 << 3 | 1 << 6 | 1 << 7 | 0xf << 12 | 1 << 16)

	.text
	.globl	sframe_backtrace
	.type	sframe_backtrace, @function
	.p2align 4
sframe_backtrace:
	.cfi_startproc
	endbr64
	lea	8(%rsp), %rax
	mov	(%rsp), %r8
	sub	$(REGS_SIZE + 8), %rsp
	.cfi_adjust_cfa_offset REGS_SIZE + 8
	mov	%rbx, 3 * 8(%rsp)
	mov	%rbp, 6 * 8(%rsp)
	mov	%rax, 7 * 8(%rsp)
	mov	%r12, 12 * 8(%rsp)
	mov	%r13, 13 * 8(%rsp)
	mov	%r14, 14 * 8(%rsp)
	mov	%r15, 15 * 8(%rsp)
	mov	%r8, 16 * 8(%rsp)
	movl	$KNOWN, 17 * 8(%rsp)
	movl	$0, 17 * 8 + 4(%rsp)
	mov	%rsp, %rcx
	call	sframe_backtrace_from
	add	$(REGS_SIZE + 8), %rsp
	.cfi_adjust_cfa_offset -(REGS_SIZE + 8)
	ret
	.cfi_endproc
	.size	sframe_backtrace, . - sframe_backtrace

	.section .note.GNU-stack, "", @progbits
