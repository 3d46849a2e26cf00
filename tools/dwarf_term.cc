// SPDX-License-Identifier: MIT
#include "dwarf_term.h"

#include <cinttypes>
#include <cstdio>
#include <vector>
#include <dwarf.h>
#include "frame_rule.h"

namespace {

constexpr unsigned RIP = 16;

int64_t wrap_add(int64_t a, int64_t b)
{
	return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

Term add(const Term &a, const Term &b)
{
	if (a.kind == Term::CONSTANT && b.kind != Term::CONSTANT)
		return add(b, a);
	if (b.kind != Term::CONSTANT || a.kind == Term::OTHER)
		return {};
	Term sum = a;
	int64_t &at = a.kind == Term::MEMORY ? sum.plus : sum.offset;
	at = wrap_add(at, b.offset);
	return sum;
}

// The operators that make sense on constants alone; false if @atom is none.
bool fold(uint8_t atom, int64_t a, int64_t b, int64_t *out)
{
	const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);

	switch (atom) {
	case DW_OP_and: *out = a & b; return true;
	case DW_OP_or: *out = a | b; return true;
	case DW_OP_xor: *out = a ^ b; return true;
	case DW_OP_mul: *out = static_cast<int64_t>(ua * ub); return true;
	case DW_OP_shl: *out = ub > 63 ? 0 : static_cast<int64_t>(ua << ub); return true;
	case DW_OP_shr: *out = ub > 63 ? 0 : static_cast<int64_t>(ua >> ub); return true;
	case DW_OP_ge: *out = a >= b; return true;
	case DW_OP_gt: *out = a > b; return true;
	case DW_OP_le: *out = a <= b; return true;
	case DW_OP_lt: *out = a < b; return true;
	case DW_OP_eq: *out = a == b; return true;
	case DW_OP_ne: *out = a != b; return true;
	default: return false;
	}
}

class Machine {
public:
	explicit Machine(uint64_t pc) : pc_(pc) {}

	// false: the expression is beyond us; its value is OTHER then.
	bool run(const Dwarf_Op *ops, size_t count, Evaluation &out)
	{
		for (size_t i = 0; i < count; i++)
			if (!step(ops[i], out))
				return false;
		if (stack_.empty())
			return false;
		out.term = stack_.back();
		return true;
	}

private:
	bool push(const Term &term)
	{
		stack_.push_back(term);
		return true;
	}

	bool pop(Term *term)
	{
		if (stack_.empty())
			return false;
		*term = stack_.back();
		stack_.pop_back();
		return true;
	}

	bool push_register(uint64_t reg, int64_t offset, Evaluation &out)
	{
		if (reg != RIP)
			return reg <= UINT16_MAX &&
			       push(Term::in_register(static_cast<unsigned>(reg), offset));
		out.used_pc = true;
		return push(Term::constant(wrap_add(static_cast<int64_t>(pc_), offset)));
	}

	bool step(const Dwarf_Op &op, Evaluation &out)
	{
		const auto number = static_cast<int64_t>(op.number);

		if (op.atom >= DW_OP_lit0 && op.atom <= DW_OP_lit31)
			return push(Term::constant(op.atom - DW_OP_lit0));
		if (op.atom >= DW_OP_breg0 && op.atom <= DW_OP_breg31)
			return push_register(op.atom - DW_OP_breg0, number, out);
		if (op.atom >= DW_OP_reg0 && op.atom <= DW_OP_reg31) {
			out.is_value = true;
			return push(Term::in_register(op.atom - DW_OP_reg0, 0));
		}
		switch (op.atom) {
		case DW_OP_bregx:
			return push_register(op.number, static_cast<int64_t>(op.number2), out);
		case DW_OP_regx:
			out.is_value = true;
			return op.number <= UINT16_MAX &&
			       push(Term::in_register(static_cast<unsigned>(op.number), 0));
		case DW_OP_addr: case DW_OP_const1u: case DW_OP_const1s: case DW_OP_const2u:
		case DW_OP_const2s: case DW_OP_const4u: case DW_OP_const4s: case DW_OP_const8u:
		case DW_OP_const8s: case DW_OP_constu: case DW_OP_consts:
			return push(Term::constant(number));
		case DW_OP_call_frame_cfa:
			return push(Term::cfa(0));
		case DW_OP_stack_value:
			out.is_value = true;
			return true;
		case DW_OP_nop:
			return true;
		default:
			return op.atom == DW_OP_plus_uconst || op.atom == DW_OP_deref ||
			       op.atom == DW_OP_neg || op.atom == DW_OP_not ?
			       unary(op) : binary(op.atom);
		}
	}

	bool unary(const Dwarf_Op &op)
	{
		Term a;

		if (!pop(&a))
			return false;
		if (op.atom == DW_OP_plus_uconst)
			return push(add(a, Term::constant(static_cast<int64_t>(op.number))));
		if (op.atom == DW_OP_deref)
			return push(a.deref());
		if (a.kind != Term::CONSTANT)
			return push({});
		return push(Term::constant(op.atom == DW_OP_not ? ~a.offset :
			static_cast<int64_t>(0 - static_cast<uint64_t>(a.offset))));
	}

	bool binary(uint8_t atom)
	{
		Term a, b;
		int64_t folded = 0;

		if (atom == DW_OP_dup)
			return !stack_.empty() && push(stack_.back());
		if (atom == DW_OP_drop)
			return pop(&a);
		if (!pop(&b) || !pop(&a))
			return false;
		if (atom == DW_OP_swap)
			return push(b) && push(a);
		if (atom == DW_OP_over)
			return push(a) && push(b) && push(a);
		if (atom == DW_OP_plus)
			return push(add(a, b));
		if (atom == DW_OP_minus && b.kind == Term::CONSTANT)
			return push(add(a, Term::constant(
				static_cast<int64_t>(0 - static_cast<uint64_t>(b.offset)))));
		if (!fold(atom, a.offset, b.offset, &folded))
			return false;
		const bool constants = a.kind == Term::CONSTANT && b.kind == Term::CONSTANT;
		return push(constants ? Term::constant(folded) : Term());
	}

	const uint64_t pc_;
	std::vector<Term> stack_;
};

} // namespace

Term Term::constant(int64_t value)
{
	Term term;

	term.kind = CONSTANT;
	term.offset = value;
	return term;
}

Term Term::in_register(unsigned reg, int64_t offset)
{
	Term term;

	term.kind = LINEAR;
	term.base = SFRAME_BASE_REG;
	term.reg = static_cast<uint16_t>(reg);
	term.offset = offset;
	return term;
}

Term Term::cfa(int64_t offset)
{
	Term term;

	term.kind = LINEAR;
	term.base = SFRAME_BASE_CFA;
	term.offset = offset;
	return term;
}

Term Term::deref() const
{
	Term term = *this;

	if (kind != LINEAR)
		return {};
	term.kind = MEMORY;
	return term;
}

std::string Term::text() const
{
	char number[32];

	if (kind == OTHER)
		return "(expression)";
	snprintf(number, sizeof(number), kind == CONSTANT ? "%" PRId64 : "%+" PRId64, offset);
	if (kind == CONSTANT)
		return number;
	std::string sum = base == SFRAME_BASE_CFA ? "CFA" : register_name(reg);
	if (offset)
		sum += number;
	if (kind == LINEAR)
		return sum;
	sum = "*(" + sum + ")";
	snprintf(number, sizeof(number), "%+" PRId64, plus);
	return plus ? sum + number : sum;
}

Evaluation evaluate_expression(const Dwarf_Op *ops, size_t count, uint64_t pc)
{
	Evaluation out;

	if (!Machine(pc).run(ops, count, out))
		out.term = {};
	return out;
}
