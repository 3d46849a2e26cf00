// SPDX-License-Identifier: MIT
#include "frame_rule.h"

#include <cinttypes>
#include <climits>
#include <cstdio>

namespace {

constexpr unsigned RBP = 6;

// CFA-based to register-based. An offset that would leave 32 bits stays as it is.
void resolve(sframe_decoded_rule &rule, const sframe_decoded_rule &cfa)
{
	const int64_t offset = static_cast<int64_t>(rule.offset) + cfa.offset;

	if (rule.base != SFRAME_BASE_CFA || cfa.base != SFRAME_BASE_REG || cfa.deref ||
	    offset < INT32_MIN || offset > INT32_MAX)
		return;
	rule.base = SFRAME_BASE_REG;
	rule.reg = cfa.reg;
	rule.offset = static_cast<int32_t>(offset);
}

} // namespace

std::string register_name(unsigned number)
{
	static const char *const names[] = { "rax", "rdx", "rcx", "rbx", "rsi", "rdi",
					     "rbp", "rsp", "r8", "r9", "r10", "r11",
					     "r12", "r13", "r14", "r15", "rip" };

	if (number < sizeof(names) / sizeof(names[0]))
		return names[number];
	return std::string("r").append(std::to_string(number));
}

std::string rule_text(const sframe_decoded_rule &rule)
{
	char offset[16] = "";

	if (rule.base == SFRAME_BASE_NONE)
		return "u";
	if (rule.offset)
		snprintf(offset, sizeof(offset), "%+" PRId32, rule.offset);
	const std::string sum = (rule.base == SFRAME_BASE_CFA ? "CFA" : register_name(rule.reg)) +
				offset;
	return rule.deref ? "*(" + sum + ")" : sum;
}

std::string row_text(const sframe_decoded_row &row)
{
	const std::string mark = row.signal ? "signal " : "";

	if (row.outermost)
		return mark + "outermost";
	return mark + "CFA=" + rule_text(row.cfa) + " RA=" + rule_text(row.ra) +
	       " FP=" + rule_text(row.fp);
}

sframe_decoded_row canonical(const sframe_decoded_row &row)
{
	sframe_decoded_row out = row;

	if (out.outermost) {
		out.cfa = out.ra = out.fp = {};
		return out;
	}
	resolve(out.ra, out.cfa);
	resolve(out.fp, out.cfa);
	if (out.fp.base == SFRAME_BASE_REG && out.fp.reg == RBP && !out.fp.deref && !out.fp.offset)
		out.fp = {};
	return out;
}

bool same_rule(const sframe_decoded_rule &a, const sframe_decoded_rule &b)
{
	if (a.base != b.base)
		return false;
	if (a.base == SFRAME_BASE_NONE)
		return true;
	return a.deref == b.deref && a.offset == b.offset &&
	       (a.base != SFRAME_BASE_REG || a.reg == b.reg);
}

bool same_row(const sframe_decoded_row &a, const sframe_decoded_row &b)
{
	return a.outermost == b.outermost && a.signal == b.signal &&
	       a.mangled_ra == b.mangled_ra && same_rule(a.cfa, b.cfa) && same_rule(a.ra, b.ra) &&
	       same_rule(a.fp, b.fp);
}
