// SPDX-License-Identifier: MIT
//
// The judge's own parts: DWARF expressions over symbolic registers, rules made
// canonical, padding.
#include <gtest/gtest.h>
#include <dwarf.h>
#include "dwarf_term.h"
#include "frame_rule.h"
#include "padding.h"

namespace {

using Ops = std::vector<Dwarf_Op>;

Dwarf_Op op(uint8_t atom, int64_t number = 0, int64_t number2 = 0)
{
	return { atom, static_cast<Dwarf_Word>(number), static_cast<Dwarf_Word>(number2), 0 };
}

std::string value(const Ops &ops, uint64_t pc = 0)
{
	return evaluate_expression(ops.data(), ops.size(), pc).term.text();
}

TEST(Expression, RegisterPlusOffset)
{
	EXPECT_EQ(value({ op(DW_OP_breg7, 16) }), "rsp+16");
	EXPECT_EQ(value({ op(DW_OP_bregx, 10, -8) }), "r10-8");
	EXPECT_EQ(value({ op(DW_OP_call_frame_cfa), op(DW_OP_plus_uconst, -8) }), "CFA-8");
}

TEST(Expression, MemoryAtARegister)
{
	EXPECT_EQ(value({ op(DW_OP_breg6, -8), op(DW_OP_deref) }), "*(rbp-8)");
	// The CFA of OpenSSL's assembly: no rule of SFrame adds after reading.
	EXPECT_EQ(value({ op(DW_OP_breg7, 120), op(DW_OP_deref), op(DW_OP_plus_uconst, 8) }),
		  "*(rsp+120)+8");
	EXPECT_EQ(value({ op(DW_OP_breg7, 0), op(DW_OP_deref), op(DW_OP_deref) }), "(expression)");
}

// rsp + 8 + ((rip & 15) >= 11) << 3, what linkers write for a PLT.
TEST(Expression, PltIsTwoRulesByTheAddressInTheBlock)
{
	const Ops plt = { op(DW_OP_breg7, 8), op(DW_OP_breg16, 0), op(DW_OP_lit15),
			  op(DW_OP_and), op(DW_OP_lit11), op(DW_OP_ge), op(DW_OP_lit3),
			  op(DW_OP_shl), op(DW_OP_plus) };

	for (uint64_t pc = 0x1020; pc < 0x1060; pc++)
		EXPECT_EQ(value(plt, pc), pc % 16 >= 11 ? "rsp+16" : "rsp+8") << pc;
	EXPECT_TRUE(evaluate_expression(plt.data(), plt.size(), 0x1020).used_pc);
}

TEST(Expression, WhatHasNoFormIsNoRule)
{
	EXPECT_EQ(value({ op(DW_OP_breg7, 0), op(DW_OP_breg6, 0), op(DW_OP_plus) }),
		  "(expression)");
	EXPECT_EQ(value({ op(DW_OP_breg7, 0), op(DW_OP_const1s, -16), op(DW_OP_and) }),
		  "(expression)");
	EXPECT_EQ(value({ op(DW_OP_plus) }), "(expression)");
	EXPECT_EQ(value({}), "(expression)");
}

sframe_decoded_rule rule(uint8_t base, uint8_t deref, uint16_t reg, int32_t offset)
{
	return { base, deref, reg, offset };
}

TEST(Canonical, CfaBasedAndRegisterBasedAreOne)
{
	sframe_decoded_row a = {}, b = {};

	a.cfa = b.cfa = rule(SFRAME_BASE_REG, 0, 7, 16);
	a.ra = rule(SFRAME_BASE_CFA, 1, 0, -8);
	b.ra = rule(SFRAME_BASE_REG, 1, 7, 8);
	b.fp = rule(SFRAME_BASE_REG, 0, 6, 0);
	EXPECT_FALSE(same_row(a, b));
	EXPECT_TRUE(same_row(canonical(a), canonical(b)));
	b.ra.offset = 9;
	EXPECT_FALSE(same_row(canonical(a), canonical(b)));
}

TEST(Canonical, MarksAndRulesAllCount)
{
	sframe_decoded_row good = {};

	good.cfa = rule(SFRAME_BASE_REG, 0, 7, 16);
	good.ra = rule(SFRAME_BASE_CFA, 1, 0, -8);
	good.fp = rule(SFRAME_BASE_CFA, 1, 0, -16);
	for (int fault = 0; fault < 7; fault++) {
		sframe_decoded_row bad = good;

		switch (fault) {
		case 0: bad.signal = 1; break;
		case 1: bad.outermost = 1; break;
		case 2: bad.cfa.reg = 6; break;
		case 3: bad.cfa.deref = 1; break;
		case 4: bad.ra.deref = 0; break;
		case 5: bad.fp.offset = -24; break;
		case 6: bad.fp.base = SFRAME_BASE_NONE; break;
		}
		EXPECT_FALSE(same_row(canonical(good), canonical(bad))) << fault;
	}
}

bool padding(const std::vector<unsigned char> &bytes) { return is_padding(bytes); }

TEST(Padding, FillersOfAssemblersAndLinkers)
{
	EXPECT_TRUE(padding({ 0x90 }));
	EXPECT_TRUE(padding({ 0x66, 0x90 }));
	EXPECT_TRUE(padding({ 0x0f, 0x1f, 0x00 }));
	EXPECT_TRUE(padding({ 0x0f, 0x1f, 0x44, 0x00, 0x00 }));
	EXPECT_TRUE(padding({ 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0x90 }));
	EXPECT_TRUE(padding({ 0xcc, 0xcc, 0x00, 0x00 }));
	EXPECT_TRUE(padding({ 0x48, 0x8d, 0xb6, 0, 0, 0, 0 }));	// lea 0x0(%rsi),%rsi
	EXPECT_TRUE(padding({ 0x8d, 0x76, 0x00 }));
	EXPECT_TRUE(padding({}));
}

TEST(Padding, CodeIsNone)
{
	EXPECT_FALSE(padding({ 0xc3 }));
	EXPECT_FALSE(padding({ 0x90, 0xc3 }));
	EXPECT_FALSE(padding({ 0x55 }));
	EXPECT_FALSE(padding({ 0xf3, 0x0f, 0x1e, 0xfa }));
	EXPECT_FALSE(padding({ 0x48, 0x8d, 0xb6, 1, 0, 0, 0 }));	// lea 0x1(%rsi),%rsi
	EXPECT_FALSE(padding({ 0x48, 0x8d, 0xbe, 0, 0, 0, 0 }));	// lea 0x0(%rsi),%rdi
	EXPECT_FALSE(padding({ 0x0f, 0x1f, 0x44, 0x00 }));	// cut short
	EXPECT_FALSE(padding({ 0x66 }));
}

} // namespace
