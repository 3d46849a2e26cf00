# SPDX-License-Identifier: MIT
	.text
	.globl frame
	.type frame, @function
frame:	.cfi_startproc
	stmg %r11,%r15,88(%r15)
	.cfi_rel_offset 11, 88
	.cfi_rel_offset 14, 112
	.cfi_rel_offset 15, 120
	lay %r15,-168(%r15)
	.cfi_adjust_cfa_offset 168
	lgr %r11,%r15
	.cfi_def_cfa_register 11
	nop
	lmg %r11,%r15,256(%r11)
	.cfi_restore 15
	.cfi_restore 14
	.cfi_restore 11
	.cfi_def_cfa 15, 160
	br %r14
	.cfi_endproc
	.size frame,.-frame
	.type leaf, @function
leaf:	.cfi_startproc
	nop
	br %r14
	.cfi_endproc
	.type fpronly, @function
fpronly: .cfi_startproc
	ldgr %f0,%r11
	.cfi_register 11, 16
	ldgr %f2,%r14
	.cfi_register 14, 17
	nop
	lgdr %r11,%f0
	.cfi_restore 11
	lgdr %r14,%f2
	.cfi_restore 14
	br %r14
	.cfi_endproc
	.type fponstack, @function
fponstack: .cfi_startproc
	stg %r11,88(%r15)
	.cfi_rel_offset 11, 88
	nop
	lg %r11,88(%r15)
	.cfi_restore 11
	br %r14
	.cfi_endproc
	.type big, @function
big:	.cfi_startproc
	lay %r15,-8192(%r15)
	.cfi_adjust_cfa_offset 8192
	nop
	.cfi_endproc
	.type outer, @function
outer:	.cfi_startproc
	.cfi_undefined 14
	nop
	.cfi_endproc
