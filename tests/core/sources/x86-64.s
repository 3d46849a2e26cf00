# SPDX-License-Identifier: MIT
# All shapes of CFI that gas turns into SFrame rows on x86-64.
	.text

	.globl	frame
	.type	frame, @function
frame:	.cfi_startproc
	push	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset rbp, 0
	mov	%rsp, %rbp
	.cfi_def_cfa_register rbp
	sub	$32, %rsp
	call	plain@plt
	leave
	.cfi_restore rbp
	.cfi_def_cfa rsp, 8
	ret
	.cfi_endproc
	.size	frame, .-frame

	.globl	plain
	.type	plain, @function
plain:	.cfi_startproc
	sub	$24, %rsp
	.cfi_adjust_cfa_offset 24
	call	frame@plt
	call	other@plt
	add	$24, %rsp
	.cfi_adjust_cfa_offset -24
	ret
	.cfi_endproc
	.size	plain, .-plain

# Two early returns: rows that come back.
	.globl	remember
	.type	remember, @function
remember: .cfi_startproc
	push	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset rbp, 0
	push	%rbx
	.cfi_adjust_cfa_offset 8
	test	%edi, %edi
	je	1f
	.cfi_remember_state
	pop	%rbx
	.cfi_adjust_cfa_offset -8
	pop	%rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore rbp
	ret
1:	.cfi_restore_state
	nop
	pop	%rbx
	.cfi_adjust_cfa_offset -8
	pop	%rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore rbp
	ret
	.cfi_endproc
	.size	remember, .-remember

# Offsets of two and of four bytes.
	.globl	wide
	.type	wide, @function
wide:	.cfi_startproc
	sub	$4096, %rsp
	.cfi_def_cfa_offset 4104
	nop
	sub	$1000000, %rsp
	.cfi_def_cfa_offset 1004104
	mov	%rbp, 8(%rsp)
	.cfi_rel_offset rbp, 8
	nop
	add	$1004096, %rsp
	.cfi_def_cfa_offset 8
	.cfi_restore rbp
	ret
	.cfi_endproc
	.size	wide, .-wide

# Start addresses of two and of four bytes.
	.globl	long2
	.type	long2, @function
long2:	.cfi_startproc
	push	%rbx
	.cfi_adjust_cfa_offset 8
	.skip	300, 0x90
	pop	%rbx
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size	long2, .-long2

	.globl	long4
	.type	long4, @function
long4:	.cfi_startproc
	push	%rbx
	.cfi_adjust_cfa_offset 8
	.skip	70000, 0x90
	pop	%rbx
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size	long4, .-long4

# No caller from the start, and after a while.
	.globl	outermost
	.type	outermost, @function
outermost: .cfi_startproc
	.cfi_undefined rip
	xor	%ebp, %ebp
	hlt
	.cfi_endproc
	.size	outermost, .-outermost

	.globl	outermost_later
	.type	outermost_later, @function
outermost_later: .cfi_startproc
	nop
	.cfi_undefined rip
	hlt
	.cfi_endproc
	.size	outermost_later, .-outermost_later

# A stack realigned through a register: CFA from r10, then from memory.
	.globl	drap
	.type	drap, @function
drap:	.cfi_startproc
	lea	8(%rsp), %r10
	.cfi_def_cfa r10, 0
	and	$-32, %rsp
	push	-8(%r10)
	push	%rbp
	mov	%rsp, %rbp
	.cfi_escape 0x10, 0x6, 0x2, 0x76, 0x0		# rbp: expression breg6 0
	push	%r10
	.cfi_escape 0xf, 0x3, 0x76, 0x78, 0x6		# CFA: *(rbp-8)
	sub	$40, %rsp
	nop
	mov	-8(%rbp), %r10
	.cfi_def_cfa r10, 0
	leave
	lea	-8(%r10), %rsp
	.cfi_def_cfa rsp, 8
	ret
	.cfi_endproc
	.size	drap, .-drap

# The return address waits in a register, as in vfork.
	.globl	ra_in_register
	.type	ra_in_register, @function
ra_in_register: .cfi_startproc
	pop	%rdi
	.cfi_adjust_cfa_offset -8
	.cfi_register rip, rdi
	nop
	push	%rdi
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset rip, 0
	ret
	.cfi_endproc
	.size	ra_in_register, .-ra_in_register

# The caller's frame pointer waits in a register.
	.globl	fp_in_register
	.type	fp_in_register, @function
fp_in_register: .cfi_startproc
	mov	%rbp, %r11
	.cfi_register rbp, r11
	nop
	mov	%r11, %rbp
	.cfi_restore rbp
	ret
	.cfi_endproc
	.size	fp_in_register, .-fp_in_register

# What a signal handler returns to, described as glibc does.
	.globl	restore
	.type	restore, @function
	.cfi_startproc
	.cfi_signal_frame
	.cfi_escape 0xf, 0x4, 0x77, 0xa0, 0x1, 0x6	# CFA: *(rsp+160)
	.cfi_escape 0x10, 0x6, 0x3, 0x77, 0xf8, 0x0	# rbp: rsp+120
	.cfi_escape 0x10, 0x10, 0x3, 0x77, 0xa8, 0x1	# rip: rsp+168
	nop
restore:
	mov	$15, %eax
	syscall
	.cfi_endproc
	.size	restore, .-restore

	.globl	signal_plain
	.type	signal_plain, @function
signal_plain: .cfi_startproc
	.cfi_signal_frame
	nop
	push	%rbx
	.cfi_adjust_cfa_offset 8
	pop	%rbx
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size	signal_plain, .-signal_plain

# A function in a section of its own.
	.section .text.cold, "ax", @progbits
	.type	cold, @function
cold:	.cfi_startproc
	sub	$8, %rsp
	.cfi_adjust_cfa_offset 8
	ud2
	.cfi_endproc
	.size	cold, .-cold
	.section .note.GNU-stack, "", @progbits
