// SPDX-License-Identifier: MIT
//
// What holds at a PC, in SFrame's terms: CFA, return address and caller's
// frame pointer, each [*](base + offset). Two sources speak these terms: the
// decoder (SFrame) and libdw_cfi.h (.eh_frame). To compare them both are first
// made canonical: "*(CFA - 8)" and "*(rsp + 8)" say the same where CFA is
// rsp + 16.
#pragma once

#include <string>
#include <sframe/decode.h>

// Name of a DWARF register of x86-64 ("rbp"), or "r17".
std::string register_name(unsigned number);

// "*(rsp+8)", "rbp+16", "CFA-8"; "u" for an unchanged register.
std::string rule_text(const sframe_decoded_rule &rule);
// "CFA=rsp+16 RA=*(CFA-8) FP=u", "outermost"; "signal" in front where it is one.
std::string row_text(const sframe_decoded_row &row);

// RA and FP by register where CFA is a register plus an offset; "FP = rbp + 0"
// is an unchanged FP; of an outermost row only the marks count.
sframe_decoded_row canonical(const sframe_decoded_row &row);
bool same_rule(const sframe_decoded_rule &a, const sframe_decoded_rule &b);
// Same meaning; start and end do not count. Both must be canonical.
bool same_row(const sframe_decoded_row &a, const sframe_decoded_row &b);
