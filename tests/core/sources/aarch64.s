# SPDX-License-Identifier: MIT
	.text
	.globl frame
	.type frame, %function
frame:	.cfi_startproc
	paciasp
	.cfi_negate_ra_state
	stp x29, x30, [sp, -32]!
	.cfi_def_cfa_offset 32
	.cfi_offset 29, -32
	.cfi_offset 30, -24
	mov x29, sp
	.cfi_def_cfa_register 29
	nop
	ldp x29, x30, [sp], 32
	.cfi_restore 29
	.cfi_restore 30
	.cfi_def_cfa 31, 0
	autiasp
	.cfi_negate_ra_state
	ret
	.cfi_endproc
	.size frame,.-frame
	.globl leaf
	.type leaf, %function
leaf:	.cfi_startproc
	sub sp, sp, 4080
	.cfi_def_cfa_offset 4080
	nop
	add sp, sp, 4080
	.cfi_def_cfa_offset 0
	ret
	.cfi_endproc
	.size leaf,.-leaf
	.type keyb, %function
keyb:	.cfi_startproc
	.cfi_b_key_frame
	pacibsp
	.cfi_negate_ra_state
	stp x29, x30, [sp, -16]!
	.cfi_def_cfa_offset 16
	.cfi_offset 29, -16
	.cfi_offset 30, -8
	ldp x29, x30, [sp], 16
	.cfi_restore 29
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	retab
	.cfi_endproc
	.size keyb,.-keyb
	.type outer, %function
outer:	.cfi_startproc
	.cfi_undefined x30
	mov x29, 0
	.cfi_endproc
	.type flex, %function
flex:	.cfi_startproc
	mov x9, sp
	.cfi_def_cfa 9, 0
	nop
	mov x10, x30
	.cfi_register 30, 10
	nop
	.cfi_endproc
	.type lronly, %function
lronly:	.cfi_startproc
	str x30, [sp, -16]!
	.cfi_def_cfa_offset 16
	.cfi_offset 30, -16
	ldr x30, [sp], 16
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	ret
	.cfi_endproc
