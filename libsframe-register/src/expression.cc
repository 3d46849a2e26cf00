// SPDX-License-Identifier: MIT
#include "expression.h"

#include "reader.h"

namespace sframe {

namespace {

enum : uint8_t {
	DW_OP_deref = 0x06,
	DW_OP_const1u = 0x08,
	DW_OP_const1s = 0x09,
	DW_OP_const2u = 0x0a,
	DW_OP_const2s = 0x0b,
	DW_OP_const4u = 0x0c,
	DW_OP_const4s = 0x0d,
	DW_OP_const8u = 0x0e,
	DW_OP_const8s = 0x0f,
	DW_OP_constu = 0x10,
	DW_OP_consts = 0x11,
	DW_OP_dup = 0x12,
	DW_OP_drop = 0x13,
	DW_OP_over = 0x14,
	DW_OP_swap = 0x16,
	DW_OP_and = 0x1a,
	DW_OP_minus = 0x1c,
	DW_OP_plus = 0x22,
	DW_OP_plus_uconst = 0x23,
	DW_OP_shl = 0x24,
	DW_OP_ge = 0x2a,
	DW_OP_lit0 = 0x30,
	DW_OP_breg0 = 0x70,
	DW_OP_bregx = 0x92,
	DW_OP_nop = 0x96,
};

constexpr uint32_t kRip = 16;

// A value on the symbolic stack. kMasked and kStep are halves of the linker's
// expression for procedure linkage tables.
struct Value {
	enum Form : uint8_t {
		kConstant,	// number
		kSum,		// reg + number
		kLoad,		// *(reg + number)
		kCfaSum,	// CFA + number
		kCfaLoad,	// *(CFA + number)
		kMasked,	// rip & mask
		kStep,		// ((rip & mask) >= threshold) << shift
		kPltSum,	// reg + number + kStep
		kOpaque,
	};

	Form form = kOpaque;
	uint8_t mask = 0, threshold = 0, shift = 0;
	uint32_t reg = 0;
	int64_t number = 0;
};

Value constant(int64_t number) { return {.form = Value::kConstant, .number = number}; }

Value plus(Value a, Value b)
{
	if (a.form == Value::kConstant || a.form == Value::kStep) {
		const Value t = a;

		a = b;
		b = t;
	}
	if (b.form == Value::kConstant) {
		if (a.form == Value::kLoad || a.form == Value::kCfaLoad || a.form == Value::kMasked ||
		    a.form == Value::kStep) {
			if (b.number)
				return {};
			return a;
		}
		if (__builtin_add_overflow(a.number, b.number, &a.number))
			return {};
		return a;
	}
	if (b.form == Value::kStep && a.form == Value::kSum) {
		b.form = Value::kPltSum;
		b.reg = a.reg;
		b.number = a.number;
		return b;
	}
	return {};
}

Value minus(const Value &a, const Value &b)
{
	if (b.form != Value::kConstant || b.number == INT64_MIN)
		return {};
	return plus(a, constant(-b.number));
}

Value load(Value a)
{
	if (a.form == Value::kSum)
		a.form = Value::kLoad;
	else if (a.form == Value::kCfaSum)
		a.form = Value::kCfaLoad;
	else
		a = {};
	return a;
}

// rip & (a power of two, less one), in blocks that a MASK entry can repeat.
Value mask(const Value &a, const Value &b)
{
	if (a.form != Value::kSum || a.reg != kRip || a.number != 0 ||
	    b.form != Value::kConstant || b.number < 1 || b.number > 127 ||
	    (b.number & (b.number + 1)))
		return {};
	return {.form = Value::kMasked, .mask = static_cast<uint8_t>(b.number)};
}

Value at_least(const Value &a, const Value &b)
{
	Value v = a;

	if (a.form != Value::kMasked || b.form != Value::kConstant || b.number < 1 ||
	    b.number > a.mask)
		return {};
	v.form = Value::kStep;
	v.threshold = static_cast<uint8_t>(b.number);
	return v;
}

Value shift_left(const Value &a, const Value &b)
{
	Value v = a;

	if (a.form != Value::kStep || a.shift || b.form != Value::kConstant || b.number < 0 ||
	    b.number > 16)
		return {};
	v.shift = static_cast<uint8_t>(b.number);
	return v;
}

class Machine {
public:
	bool run(Reader &r);
	void push(const Value &v)
	{
		if (depth_ == kDepth)
			failed_ = true;
		else
			stack_[depth_++] = v;
	}
	Value pop()
	{
		if (!depth_) {
			failed_ = true;
			return {};
		}
		return stack_[--depth_];
	}

private:
	static constexpr unsigned int kDepth = 16;

	void binary(Value (*op)(Value, Value))
	{
		const Value b = pop(), a = pop();

		push(op(a, b));
	}
	void binary(Value (*op)(const Value &, const Value &))
	{
		const Value b = pop(), a = pop();

		push(op(a, b));
	}
	bool push_constant(uint8_t op, Reader &r);
	bool step(uint8_t op, Reader &r);

	Value stack_[kDepth];
	unsigned int depth_ = 0;
	bool failed_ = false;
};

bool Machine::push_constant(uint8_t op, Reader &r)
{
	if (op >= DW_OP_lit0 && op < DW_OP_lit0 + 32) {
		push(constant(op - DW_OP_lit0));
		return true;
	}
	switch (op) {
	case DW_OP_const1u:
		push(constant(r.u8()));
		return true;
	case DW_OP_const1s:
		push(constant(static_cast<int8_t>(r.u8())));
		return true;
	case DW_OP_const2u:
		push(constant(r.u16()));
		return true;
	case DW_OP_const2s:
		push(constant(static_cast<int16_t>(r.u16())));
		return true;
	case DW_OP_const4u:
		push(constant(r.u32()));
		return true;
	case DW_OP_const4s:
		push(constant(static_cast<int32_t>(r.u32())));
		return true;
	case DW_OP_const8u:
	case DW_OP_const8s:
		push(constant(static_cast<int64_t>(r.u64())));
		return true;
	case DW_OP_constu:
		push(constant(static_cast<int64_t>(r.uleb())));
		return true;
	case DW_OP_consts:
		push(constant(r.sleb()));
		return true;
	}
	return false;
}

bool Machine::step(uint8_t op, Reader &r)
{
	if (push_constant(op, r))
		return true;
	if (op >= DW_OP_breg0 && op < DW_OP_breg0 + 32) {
		push({.form = Value::kSum, .reg = uint32_t(op - DW_OP_breg0), .number = r.sleb()});
		return true;
	}
	switch (op) {
	case DW_OP_bregx: {
		const uint64_t reg = r.uleb();

		push({.form = Value::kSum, .reg = reg > 0xffff ? 0xffff : uint32_t(reg),
		      .number = r.sleb()});
		return true;
	}
	case DW_OP_dup: {
		const Value v = pop();

		push(v);
		push(v);
		return true;
	}
	case DW_OP_drop:
		pop();
		return true;
	case DW_OP_over: {
		const Value b = pop(), a = pop();

		push(a);
		push(b);
		push(a);
		return true;
	}
	case DW_OP_swap: {
		const Value b = pop(), a = pop();

		push(b);
		push(a);
		return true;
	}
	case DW_OP_deref:
		push(load(pop()));
		return true;
	case DW_OP_plus:
		binary(plus);
		return true;
	case DW_OP_plus_uconst:
		push(plus(pop(), constant(static_cast<int64_t>(r.uleb()))));
		return true;
	case DW_OP_minus:
		binary(minus);
		return true;
	case DW_OP_and:
		binary(mask);
		return true;
	case DW_OP_ge:
		binary(at_least);
		return true;
	case DW_OP_shl:
		binary(shift_left);
		return true;
	case DW_OP_nop:
		return true;
	}
	return false;
}

bool Machine::run(Reader &r)
{
	while (r.left() && !failed_)
		if (!step(r.u8(), r))
			return false;
	return !failed_ && !r.bad();
}

Location unknown() { return {.kind = Location::kUnknown}; }

Location located(Location::Kind kind, const Value &v)
{
	return {.kind = kind, .mask = v.mask, .threshold = v.threshold, .shift = v.shift,
		.reg = v.reg, .offset = v.number};
}

} // namespace

Location evaluate_expression(const unsigned char *bytes, uint64_t size, ExpressionUse use)
{
	Reader r(bytes, size);
	Machine machine;

	if (use != ExpressionUse::kCfa)
		machine.push({.form = Value::kCfaSum});
	if (!machine.run(r))
		return unknown();
	Value v = machine.pop();

	if (use == ExpressionUse::kAddress)
		v = load(v);
	switch (v.form) {
	case Value::kSum:
		return located(Location::kRegister, v);
	case Value::kLoad:
		return located(Location::kMemory, v);
	case Value::kCfaSum:
		return located(Location::kCfaValue, v);
	case Value::kCfaLoad:
		return located(Location::kCfaMemory, v);
	case Value::kPltSum:
		return use == ExpressionUse::kCfa ? located(Location::kPlt, v) : unknown();
	default:
		return unknown();
	}
}

} // namespace sframe
