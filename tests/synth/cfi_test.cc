// SPDX-License-Identifier: MIT
//
// Every call frame instruction, on programs made by hand.
#include <gtest/gtest.h>
#include "eh_frame_builder.h"

namespace {

// Operations, as DWARF 5 section 7.24 and the LSB number them.
Bytes advance(unsigned char n) { return {static_cast<unsigned char>(0x40 | n)}; }
Bytes def_cfa(uint64_t reg, uint64_t offset) { return Bytes{0x0c} + uleb(reg) + uleb(offset); }
Bytes def_cfa_register(uint64_t reg) { return Bytes{0x0d} + uleb(reg); }
Bytes def_cfa_offset(uint64_t offset) { return Bytes{0x0e} + uleb(offset); }
Bytes offset(unsigned char reg, uint64_t n) { return Bytes{static_cast<unsigned char>(0x80 | reg)} + uleb(n); }
Bytes restore(unsigned char reg) { return {static_cast<unsigned char>(0xc0 | reg)}; }
Bytes cfa_expression(const Bytes &e) { return Bytes{0x0f} + uleb(e.size()) + e; }
Bytes expression(uint64_t reg, const Bytes &e) { return Bytes{0x10} + uleb(reg) + uleb(e.size()) + e; }
Bytes val_expression(uint64_t reg, const Bytes &e) { return Bytes{0x16} + uleb(reg) + uleb(e.size()) + e; }
Bytes breg(unsigned char reg, int64_t n) { return Bytes{static_cast<unsigned char>(0x70 + reg)} + sleb(n); }

const Bytes kRemember = {0x0a}, kRestoreState = {0x0b}, kDeref = {0x06};

// The rules that hold at each of the first bytes of a function with this program.
class Cfi : public testing::Test {
protected:
	std::vector<std::string> rules(const Bytes &program, size_t count,
				       const Bytes &initial = kEntryRules,
				       const EhFrameBuilder::CieOptions &options = {})
	{
		EhFrameBuilder b;

		b.fde(b.cie(initial, options), kText, 64, program);
		Section s(b.image());
		std::vector<std::string> out;

		EXPECT_EQ(s.error(), 0);
		stats = s.stats();
		for (size_t i = 0; i < count; i++)
			out.push_back(rules_at(s, kText + i));
		return out;
	}
	using Rules = std::vector<std::string>;

	sframe_synth_stats stats = {};
};

TEST_F(Cfi, InitialRulesHoldWhereNothingIsSaid)
{
	EXPECT_EQ(rules({}, 2), (Rules{"sp+8 *(c-8) u", "sp+8 *(c-8) u"}));
	EXPECT_EQ(stats.covered_bytes, 64u);
}

TEST_F(Cfi, OrdinaryPrologueAndEpilogue)
{
	EXPECT_EQ(rules(advance(1) + def_cfa_offset(16) + offset(6, 2) + advance(3) +
				def_cfa_register(6) + advance(1) + def_cfa(7, 8), 6),
		  (Rules{"sp+8 *(c-8) u", "sp+16 *(c-8) *(c-16)", "sp+16 *(c-8) *(c-16)",
			 "sp+16 *(c-8) *(c-16)", "fp+16 *(c-8) *(c-16)", "sp+8 *(c-8) *(c-16)"}));
}

TEST_F(Cfi, AdvanceOfEveryWidth)
{
	const Bytes sixteen = def_cfa_offset(16);

	EXPECT_EQ(rules(Bytes{0x02, 1} + sixteen, 2)[1], "sp+16 *(c-8) u");
	EXPECT_EQ(rules(Bytes{0x03, 1, 0} + sixteen, 2)[1], "sp+16 *(c-8) u");
	EXPECT_EQ(rules(Bytes{0x04, 1, 0, 0, 0} + sixteen, 2)[1], "sp+16 *(c-8) u");
	EXPECT_EQ(rules(Bytes{0x1d, 1, 0, 0, 0, 0, 0, 0, 0} + sixteen, 2)[1], "sp+16 *(c-8) u");
}

TEST_F(Cfi, AdvanceIsScaledByTheCodeAlignment)
{
	EXPECT_EQ(rules(advance(1) + def_cfa_offset(16), 5, kEntryRules, {.code_align = 4}),
		  (Rules{"sp+8 *(c-8) u", "sp+8 *(c-8) u", "sp+8 *(c-8) u", "sp+8 *(c-8) u",
			 "sp+16 *(c-8) u"}));
}

TEST_F(Cfi, SetLocIsAnEncodedAddress)
{
	EhFrameBuilder b;
	const size_t cie = b.cie();
	// Length, id, two addresses, augmentation size, opcode: then the operand.
	const uint64_t operand = kEhFrame + b.size() + 4 + 4 + 8 + 1 + 1;

	b.fde(cie, kText, 64, Bytes{0x01} + little(static_cast<int32_t>(kText + 5 - operand)) +
				      def_cfa_offset(16));
	Section s(b.image());

	EXPECT_EQ(rules_at(s, kText + 4), "sp+8 *(c-8) u");
	EXPECT_EQ(rules_at(s, kText + 5), "sp+16 *(c-8) u");
}

TEST_F(Cfi, SetLocBackwardsLeavesTheRestUncovered)
{
	EhFrameBuilder b;
	const size_t cie = b.cie();
	const uint64_t operand = kEhFrame + b.size() + 4 + 4 + 8 + 1 + 2;

	b.fde(cie, kText, 64, advance(8) + Bytes{0x01} +
				      little(static_cast<int32_t>(kText + 2 - operand)));
	Section s(b.image());

	EXPECT_EQ(rules_at(s, kText + 7), "sp+8 *(c-8) u");
	EXPECT_EQ(rules_at(s, kText + 8), "none");
	EXPECT_EQ(s.stats().uncovered_bytes[SFRAME_UNCOVERED_BAD_CFI], 56u);
}

// Two functions with the same program bytes, and yet different rows.
TEST_F(Cfi, SetLocIsNotSharedBetweenFunctions)
{
	EhFrameBuilder b;
	const auto absolute = EhFrameBuilder::CieOptions{.data = {0x04}};	// udata8
	const size_t cie = b.cie(kEntryRules, absolute);
	const Bytes program = Bytes{0x01} + little(kText + 0x60) + def_cfa_offset(16);

	b.raw_fde(cie, little(kText) + little(uint64_t(0x70)), program);
	b.raw_fde(cie, little(kText + 0x50) + little(uint64_t(0x70)), program);
	Section s(b.image());

	EXPECT_EQ(rules_at(s, kText + 0x5f), "sp+8 *(c-8) u");
	EXPECT_EQ(rules_at(s, kText + 0x60), "sp+16 *(c-8) u");
}

TEST_F(Cfi, CfaFromSignedAndFactoredOffsets)
{
	EXPECT_EQ(rules(Bytes{0x12, 7} + sleb(-3), 1)[0], "sp+24 *(c-8) u");
	EXPECT_EQ(rules(Bytes{0x13} + sleb(-4), 1)[0], "sp+32 *(c-8) u");
}

TEST_F(Cfi, OffsetOfEveryForm)
{
	EXPECT_EQ(rules(offset(6, 2), 1)[0], "sp+8 *(c-8) *(c-16)");
	EXPECT_EQ(rules(Bytes{0x05, 6, 3}, 1)[0], "sp+8 *(c-8) *(c-24)");
	EXPECT_EQ(rules(Bytes{0x11, 6} + sleb(4), 1)[0], "sp+8 *(c-8) *(c-32)");
	EXPECT_EQ(rules(Bytes{0x2f, 6, 2}, 1)[0], "sp+8 *(c-8) *(c+16)");
}

TEST_F(Cfi, RestoreGivesBackTheInitialRule)
{
	const Bytes initial = kEntryRules + offset(6, 5);

	EXPECT_EQ(rules(offset(6, 2) + advance(1) + restore(6) + advance(1) + offset(6, 3) +
				advance(1) + Bytes{0x06, 6}, 4, initial),
		  (Rules{"sp+8 *(c-8) *(c-16)", "sp+8 *(c-8) *(c-40)", "sp+8 *(c-8) *(c-24)",
			 "sp+8 *(c-8) *(c-40)"}));
}

TEST_F(Cfi, RememberedStatesNest)
{
	EXPECT_EQ(rules(def_cfa_offset(16) + kRemember + advance(1) + def_cfa_offset(24) + offset(6, 2) +
				kRemember + advance(1) + def_cfa_offset(8) + advance(1) + kRestoreState +
				advance(1) + kRestoreState, 4),
		  (Rules{"sp+16 *(c-8) u", "sp+24 *(c-8) *(c-16)", "sp+8 *(c-8) *(c-16)",
			 "sp+24 *(c-8) *(c-16)"}));
}

TEST_F(Cfi, RestoreStateWithoutRememberLeavesTheRestUncovered)
{
	EXPECT_EQ(rules(advance(2) + kRestoreState + advance(1) + def_cfa_offset(16), 4),
		  (Rules{"sp+8 *(c-8) u", "sp+8 *(c-8) u", "none", "none"}));
	EXPECT_EQ(stats.uncovered[SFRAME_UNCOVERED_BAD_CFI], 1u);
	EXPECT_EQ(stats.uncovered_bytes[SFRAME_UNCOVERED_BAD_CFI], 62u);
	EXPECT_EQ(stats.covered_bytes, 2u);
}

TEST_F(Cfi, RememberWithoutEndIsBounded)
{
	EXPECT_EQ(rules(advance(1) + Bytes(100000, 0x0a), 2), (Rules{"sp+8 *(c-8) u", "none"}));
}

TEST_F(Cfi, ArgsSizeChangesNothing)
{
	EXPECT_EQ(rules(Bytes{0x2e} + uleb(32) + def_cfa_offset(16), 1)[0], "sp+16 *(c-8) u");
}

TEST_F(Cfi, OtherRegistersAreDecodedAndLeft)
{
	EXPECT_EQ(rules(offset(3, 2) + Bytes{0x07, 12} + Bytes{0x08, 13} + Bytes{0x09, 14, 15} +
				expression(3, breg(7, 8)) + val_expression(12, breg(7, 8)) +
				restore(3) + Bytes{0x14, 3, 1} + Bytes{0x15, 3, 1} + def_cfa_offset(16), 1)[0],
		  "sp+16 *(c-8) u");
}

TEST_F(Cfi, UnknownOperationLeavesTheRestUncovered)
{
	EXPECT_EQ(rules(advance(1) + def_cfa_offset(16) + advance(1) + Bytes{0x3e}, 3),
		  (Rules{"sp+8 *(c-8) u", "sp+16 *(c-8) u", "none"}));
}

TEST_F(Cfi, OperandsThatEndEarlyLeaveTheRowUncovered)
{
	EXPECT_EQ(rules(advance(1) + Bytes{0x0e, 0x80}, 2), (Rules{"sp+8 *(c-8) u", "none"}));
	EXPECT_EQ(rules(advance(1) + Bytes{0x0f, 0x10, 0x77}, 2), (Rules{"sp+8 *(c-8) u", "none"}));
}

TEST_F(Cfi, HugeLebIsBad)
{
	EXPECT_EQ(rules(Bytes{0x0e} + Bytes(12, 0xff) + Bytes{1}, 1)[0], "none");
	EXPECT_EQ(stats.uncovered[SFRAME_UNCOVERED_BAD_CFI], 1u);
}

TEST_F(Cfi, NoCfaRuleIsRefusedAndCounted)
{
	EXPECT_EQ(rules({}, 1, {0x90, 1})[0], "none");
	EXPECT_EQ(stats.uncovered[SFRAME_UNCOVERED_NO_CFA], 1u);
	EXPECT_EQ(stats.uncovered_bytes[SFRAME_UNCOVERED_NO_CFA], 64u);
}

TEST_F(Cfi, CfaFromAnyGeneralRegister)
{
	for (unsigned char reg = 0; reg < 16; reg++) {
		const sframe_decoded_rule cfa = {SFRAME_BASE_REG, 0, reg, 24};

		EXPECT_EQ(rules(def_cfa(reg, 24), 1)[0], text_of(cfa).append(" *(c-8) u"));
	}
	EXPECT_EQ(rules(def_cfa(16, 24), 1)[0], "none");
	EXPECT_EQ(stats.uncovered[SFRAME_UNCOVERED_CFA_REGISTER], 1u);
	EXPECT_EQ(rules(def_cfa(1u << 20, 24), 1)[0], "none");
}

TEST_F(Cfi, OffsetsOfEveryWidth)
{
	EXPECT_EQ(rules(def_cfa_offset(127), 1)[0], "sp+127 *(c-8) u");
	EXPECT_EQ(rules(def_cfa_offset(128), 1)[0], "sp+128 *(c-8) u");
	EXPECT_EQ(rules(def_cfa_offset(40000), 1)[0], "sp+40000 *(c-8) u");
	EXPECT_EQ(rules(def_cfa_offset(0x7fffffff), 1)[0], "sp+2147483647 *(c-8) u");
	EXPECT_EQ(rules(def_cfa_offset(0x80000000), 1)[0], "none");
	EXPECT_EQ(stats.uncovered[SFRAME_UNCOVERED_OFFSET], 1u);
	EXPECT_EQ(rules(def_cfa_offset(200) + offset(6, 17), 1)[0], "sp+200 *(c-8) *(c-136)");
}

// gcc's dynamically realigned functions: lea 8(%rsp),%r10; and; push -8(%r10);
// push %rbp; mov %rsp,%rbp; push %r10 ... lea -8(%r10),%rsp.
TEST_F(Cfi, RealignedStack)
{
	EXPECT_EQ(rules(advance(1) + def_cfa(10, 0) + advance(1) + expression(6, breg(6, 0)) +
				advance(1) + cfa_expression(breg(6, -8) + kDeref) + advance(1) +
				def_cfa(10, 0) + advance(1) + def_cfa(7, 8) + restore(6), 6),
		  (Rules{"sp+8 *(c-8) u", "r10+0 *(c-8) u", "r10+0 *(c-8) *(fp+0)",
			 "*(fp-8) *(c-8) *(fp+0)", "r10+0 *(c-8) *(fp+0)", "sp+8 *(c-8) u"}));
	EXPECT_EQ(stats.covered_bytes, 64u);
}

// __restore_rt: everything is in the ucontext that rsp points to.
TEST_F(Cfi, SignalReturn)
{
	EhFrameBuilder b;
	const size_t cie = b.cie({}, {.augmentation = "zRS"});

	b.fde(cie, kText, 16, cfa_expression(breg(7, 160) + kDeref) + expression(3, breg(7, 128)) +
				      expression(6, breg(7, 120)) + expression(7, breg(7, 160)) +
				      expression(16, breg(7, 168)));
	Section s(b.image());

	EXPECT_EQ(rules_at(s, kText), "*(sp+160) *(sp+168) *(sp+120)");
	EXPECT_EQ(s.at(kText)->signal, 1);
	EXPECT_EQ(s.function(0)->signal, 1);
}

TEST_F(Cfi, SignalFramesShareNoEntryWithOthers)
{
	EhFrameBuilder b;
	const size_t plain = b.cie(), signal = b.cie(kEntryRules, {.augmentation = "zRS"});

	b.fde(plain, kText, 16, {});
	b.fde(signal, kText + 16, 16, {});
	b.fde(plain, kText + 32, 16, {});
	Section s(b.image());

	EXPECT_EQ(s.at(kText + 15)->signal, 0);
	EXPECT_EQ(s.at(kText + 16)->signal, 1);
	EXPECT_EQ(s.at(kText + 32)->signal, 0);
}

TEST_F(Cfi, ReturnAddressElsewhere)
{
	EXPECT_EQ(rules(offset(16, 3), 1)[0], "sp+8 *(c-24) u");
	EXPECT_EQ(rules(Bytes{0x09, 16, 2}, 1)[0], "sp+8 r2+0 u");
	EXPECT_EQ(rules(expression(16, breg(7, 40)), 1)[0], "sp+8 *(sp+40) u");
	EXPECT_EQ(rules(val_expression(16, breg(2, 4)), 1)[0], "sp+8 r2+4 u");
	EXPECT_EQ(rules(val_expression(16, breg(7, 40) + kDeref), 1)[0], "sp+8 *(sp+40) u");
	// DW_OP_plus_uconst on the CFA that stands on the stack.
	EXPECT_EQ(rules(expression(16, {0x23, 8}), 1)[0], "sp+8 *(c+8) u");
	// CFA + 16 as a value: from the register that the CFA counts from.
	EXPECT_EQ(rules(Bytes{0x15, 16} + sleb(-2), 1)[0], "sp+8 sp+24 u");
}

TEST_F(Cfi, ReturnAddressUndefinedIsTheOutermostFrame)
{
	EXPECT_EQ(rules(advance(1) + Bytes{0x07, 16}, 2), (Rules{"sp+8 *(c-8) u", "outermost"}));
	EXPECT_EQ(stats.covered_bytes, 64u);
	// No CFA is needed where there is no caller.
	EXPECT_EQ(rules({0x07, 16}, 1, {})[0], "outermost");
}

TEST_F(Cfi, ReturnAddressThatIsNotSaidIsNotInvented)
{
	EXPECT_EQ(rules({}, 1, def_cfa(7, 8))[0], "none");
	EXPECT_EQ(stats.uncovered[SFRAME_UNCOVERED_RA], 1u);
	EXPECT_EQ(rules({0x08, 16}, 1)[0], "none");
	EXPECT_EQ(stats.uncovered[SFRAME_UNCOVERED_RA], 1u);
}

TEST_F(Cfi, FramePointerElsewhere)
{
	EXPECT_EQ(rules({0x09, 6, 9}, 1)[0], "sp+8 *(c-8) r9+0");
	EXPECT_EQ(rules({0x09, 6, 6}, 1)[0], "sp+8 *(c-8) u");
	EXPECT_EQ(rules({0x08, 6}, 1)[0], "sp+8 *(c-8) u");
	EXPECT_EQ(rules(expression(6, breg(6, 0)), 1)[0], "sp+8 *(c-8) *(fp+0)");
	EXPECT_EQ(rules(val_expression(6, breg(3, 16)), 1)[0], "sp+8 *(c-8) r3+16");
	EXPECT_EQ(rules(Bytes{0x14, 6, 2}, 1)[0], "sp+8 *(c-8) sp-8");
}

// The caller's rbp is lost: a row would hand on the callee's, and a caller
// whose CFA counts from rbp would be found in the wrong place.
TEST_F(Cfi, FramePointerUndefinedIsUncovered)
{
	EXPECT_EQ(rules(advance(1) + Bytes{0x07, 6} + advance(1) + restore(6), 3),
		  (Rules{"sp+8 *(c-8) u", "none", "sp+8 *(c-8) u"}));
	EXPECT_EQ(stats.uncovered[SFRAME_UNCOVERED_FP], 1u);
	EXPECT_EQ(stats.uncovered_bytes[SFRAME_UNCOVERED_FP], 1u);
}

TEST_F(Cfi, StackPointerThatIsNotTheCfaIsUncovered)
{
	EXPECT_EQ(rules({0x14, 7, 0}, 1)[0], "sp+8 *(c-8) u");
	EXPECT_EQ(rules({0x14, 7, 1}, 1)[0], "none");
	EXPECT_EQ(rules({0x09, 7, 8}, 1)[0], "none");
	EXPECT_EQ(stats.uncovered[SFRAME_UNCOVERED_CFA_EXPRESSION], 1u);
}

TEST_F(Cfi, CfaByPlainExpression)
{
	EXPECT_EQ(rules(cfa_expression(breg(7, 16)), 1)[0], "sp+16 *(c-8) u");
	EXPECT_EQ(rules(cfa_expression(breg(7, 16) + Bytes{0x23, 8}), 1)[0], "sp+24 *(c-8) u");
	EXPECT_EQ(rules(cfa_expression(breg(7, 16) + Bytes{0x38, 0x1c}), 1)[0], "sp+8 *(c-8) u");
	EXPECT_EQ(rules(cfa_expression(Bytes{0x92, 10} + sleb(-4)), 1)[0], "r10-4 *(c-8) u");
	EXPECT_EQ(rules(cfa_expression(Bytes{0x38} + breg(7, 0) + Bytes{0x22}), 1)[0],
		  "sp+8 *(c-8) u");
	EXPECT_EQ(rules(cfa_expression(Bytes{0x0b} + little(int16_t(-8)) + breg(3, 0) + Bytes{0x16, 0x22}), 1)[0],
		  "r3-8 *(c-8) u");
	EXPECT_EQ(rules(cfa_expression(breg(6, -16) + kDeref), 1)[0], "*(fp-16) *(c-8) u");
}

// *(rsp+152)+8, as hand-written code that realigns the stack has it, and more
// that has no form in SFrame.
TEST_F(Cfi, CfaByOtherExpressionsIsUncoveredAndCounted)
{
	for (const Bytes &e : {breg(7, 152) + kDeref + Bytes{0x23, 8}, breg(7, 0) + kDeref + kDeref,
			       Bytes{0x38}, Bytes{}, Bytes{0x22}, breg(7, 0) + breg(6, 0) + Bytes{0x22},
			       breg(7, 8) + breg(9, 0) + Bytes{0x38, 0x1e, 0x22}, Bytes(200, 0x30)}) {
		EXPECT_EQ(rules(advance(1) + cfa_expression(e) + advance(1) + def_cfa(7, 16), 3),
			  (Rules{"sp+8 *(c-8) u", "none", "sp+16 *(c-8) u"}));
		EXPECT_EQ(stats.uncovered[SFRAME_UNCOVERED_CFA_EXPRESSION], 1u);
		EXPECT_EQ(stats.uncovered_bytes[SFRAME_UNCOVERED_CFA_EXPRESSION], 1u);
	}
}

TEST_F(Cfi, CfaOffsetNeedsARegister)
{
	EXPECT_EQ(rules(cfa_expression(breg(6, -8) + kDeref) + advance(1) + def_cfa_offset(8), 2),
		  (Rules{"*(fp-8) *(c-8) u", "none"}));
	EXPECT_EQ(stats.uncovered[SFRAME_UNCOVERED_BAD_CFI], 1u);
}

// rsp + 8 + (((rip & 15) >= threshold) << 3), as linkers write it for the PLT.
Bytes plt_expression(unsigned char threshold)
{
	return breg(7, 8) + breg(16, 0) +
		Bytes{0x3f, 0x1a, static_cast<unsigned char>(0x30 + threshold), 0x2a, 0x33, 0x24, 0x22};
}

TEST_F(Cfi, ProcedureLinkageTable)
{
	for (unsigned char threshold : {11, 10, 9, 5}) {
		EhFrameBuilder b;

		b.fde(b.cie(), kText, 0x100, def_cfa_offset(16) + advance(6) + def_cfa_offset(24) +
						     advance(10) + cfa_expression(plt_expression(threshold)));
		Section s(b.image());

		EXPECT_EQ(rules_at(s, kText), "sp+16 *(c-8) u");
		EXPECT_EQ(rules_at(s, kText + 6), "sp+24 *(c-8) u");
		for (uint64_t pc = kText + 16; pc < kText + 0x100; pc++)
			EXPECT_EQ(rules_at(s, pc),
				  pc % 16 >= threshold ? "sp+16 *(c-8) u" : "sp+8 *(c-8) u") << pc;
		EXPECT_EQ(rules_at(s, kText + 0x100), "none");
		EXPECT_EQ(s.stats().mask_entries, 1u);
	}
}

TEST_F(Cfi, ProcedureLinkageTableOffItsAlignment)
{
	for (uint64_t start = kText + 1; start < kText + 32; start++) {
		EhFrameBuilder b;

		b.fde(b.cie(), start, 70, cfa_expression(plt_expression(11)));
		Section s(b.image());

		for (uint64_t pc = start; pc < start + 70; pc++)
			ASSERT_EQ(rules_at(s, pc), pc % 16 >= 11 ? "sp+16 *(c-8) u" : "sp+8 *(c-8) u");
		EXPECT_EQ(rules_at(s, start - 1), "none");
		EXPECT_EQ(rules_at(s, start + 70), "none");
		// Readers may count blocks from the entry or from address 0.
		for (uint32_t i = 0; const auto fn = s.function(i); i++)
			if (fn->pctype == 1) {
				EXPECT_EQ(fn->start % fn->rep_size, 0u);
			}
	}
}

TEST_F(Cfi, ProcedureLinkageTableWithOtherShiftAndBlock)
{
	// rsp + 16 + (((rip & 31) >= 20) << 4)
	const Bytes e = breg(7, 16) + breg(16, 0) + Bytes{0x08, 31, 0x1a, 0x44, 0x2a, 0x34, 0x24, 0x22};
	EhFrameBuilder b;

	b.fde(b.cie(), kText, 96, cfa_expression(e));
	Section s(b.image());

	for (uint64_t pc = kText; pc < kText + 96; pc++)
		EXPECT_EQ(rules_at(s, pc), pc % 32 >= 20 ? "sp+32 *(c-8) u" : "sp+16 *(c-8) u");
}

TEST_F(Cfi, RowsBehindTheFunctionsEndAreDropped)
{
	EhFrameBuilder b;

	b.fde(b.cie(), kText, 4, advance(2) + def_cfa_offset(16) + advance(2) + def_cfa_offset(24));
	Section s(b.image());

	EXPECT_EQ(rules_at(s, kText + 3), "sp+16 *(c-8) u");
	EXPECT_EQ(rules_at(s, kText + 4), "none");
	EXPECT_EQ(s.stats().rows, 2u);
}

// One program, two sizes: what was cut for the first must not be for the second.
TEST_F(Cfi, SharedProgramIsCutPerFunction)
{
	EhFrameBuilder b;
	const size_t cie = b.cie();
	const Bytes program = advance(2) + def_cfa_offset(16) + advance(2) + def_cfa_offset(24);

	b.fde(cie, kText, 3, program);
	b.fde(cie, kText + 0x1000, 16, program);
	b.fde(cie, kText + 0x2000, 2, program);
	Section s(b.image());

	EXPECT_EQ(rules_at(s, kText + 2), "sp+16 *(c-8) u");
	EXPECT_EQ(rules_at(s, kText + 3), "none");
	EXPECT_EQ(rules_at(s, kText + 0x1004), "sp+24 *(c-8) u");
	EXPECT_EQ(rules_at(s, kText + 0x2001), "sp+8 *(c-8) u");
}

TEST_F(Cfi, RedundantRowsAreMerged)
{
	rules(advance(1) + offset(3, 2) + advance(1) + offset(12, 3) + advance(1) + def_cfa_offset(8), 1);
	EXPECT_EQ(stats.rows, 1u);
}

} // namespace
