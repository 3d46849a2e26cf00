// SPDX-License-Identifier: MIT
//
// Code whose stacks are hard: each scene is run under the stepper, and its
// functions are kept apart and unoptimised across so that the frames exist.
#pragma once

#include <cstdint>

extern "C" {
void scene_calls();		// prologues, epilogues, saved registers, large frames
void scene_tail_calls();
void scene_noreturn();		// the last instruction of a function is a call
void scene_alloca();
void scene_realigned();		// AVX frames, with alloca: DRAP
void scene_longjmp();
void scene_throw();		// through frames with and without cleanups
void scene_qsort();
void scene_libm();		// PLT calls bound lazily
void scene_memory();		// memcpy and its kin, every size class
void scene_printf();
void scene_vdso();
void scene_malloc();
int scene_has_avx2();
}
