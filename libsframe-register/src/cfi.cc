// SPDX-License-Identifier: MIT
#include "cfi.h"

namespace sframe {

namespace {

enum : uint8_t {
	DW_CFA_nop = 0x00,
	DW_CFA_set_loc = 0x01,
	DW_CFA_advance_loc1 = 0x02,
	DW_CFA_advance_loc2 = 0x03,
	DW_CFA_advance_loc4 = 0x04,
	DW_CFA_offset_extended = 0x05,
	DW_CFA_restore_extended = 0x06,
	DW_CFA_undefined = 0x07,
	DW_CFA_same_value = 0x08,
	DW_CFA_register = 0x09,
	DW_CFA_remember_state = 0x0a,
	DW_CFA_restore_state = 0x0b,
	DW_CFA_def_cfa = 0x0c,
	DW_CFA_def_cfa_register = 0x0d,
	DW_CFA_def_cfa_offset = 0x0e,
	DW_CFA_def_cfa_expression = 0x0f,
	DW_CFA_expression = 0x10,
	DW_CFA_offset_extended_sf = 0x11,
	DW_CFA_def_cfa_sf = 0x12,
	DW_CFA_def_cfa_offset_sf = 0x13,
	DW_CFA_val_offset = 0x14,
	DW_CFA_val_offset_sf = 0x15,
	DW_CFA_val_expression = 0x16,
	DW_CFA_MIPS_advance_loc8 = 0x1d,
	DW_CFA_GNU_args_size = 0x2e,
	DW_CFA_GNU_negative_offset_extended = 0x2f,
	// With an operand in the low six bits:
	DW_CFA_advance_loc = 0x40,
	DW_CFA_offset = 0x80,
	DW_CFA_restore = 0xc0,
};

// LEB operands beyond this are as good as garbage; keeps arithmetic in range.
constexpr uint64_t kMaxOperand = uint64_t(1) << 62;

uint32_t register_number(uint64_t reg) { return reg > 0xffff ? 0xffff : uint32_t(reg); }

} // namespace

Location *CfiProgram::slot(uint64_t reg)
{
	switch (reg) {
	case kRegBp:
		return &state_.bp;
	case kRegSp:
		return &state_.sp;
	case kRegRa:
		return &state_.ra;
	}
	return nullptr;
}

bool CfiProgram::factored(int64_t value, int64_t *offset)
{
	return !__builtin_mul_overflow(value, cie_.data_align, offset);
}

CfiProgram::Effect CfiProgram::advance(uint64_t delta)
{
	uint64_t bytes;

	if (in_cie_ || __builtin_mul_overflow(delta, cie_.code_align, &bytes) ||
	    __builtin_add_overflow(location_, bytes, &location_))
		return kInvalid;
	return bytes ? kAdvance : kNone;
}

CfiProgram::Effect CfiProgram::set_location()
{
	uint64_t address;

	absolute_ = true;
	if (in_cie_ ||
	    !read_pointer(reader_, cie_.fde_encoding,
			  vaddr_ + static_cast<uint64_t>(reader_.at() - begin_), *base_, &address) ||
	    address < function_ || address - function_ < location_)
		return kInvalid;
	if (address - function_ == location_)
		return kNone;
	location_ = address - function_;
	return kAdvance;
}

CfiProgram::Effect CfiProgram::define_cfa(uint64_t reg, int64_t offset)
{
	state_.cfa = {.kind = Location::kRegister, .reg = register_number(reg), .offset = offset};
	return kNone;
}

CfiProgram::Effect CfiProgram::rule(uint64_t reg, const Location &location)
{
	if (Location *at = slot(reg))
		*at = location;
	return kNone;
}

CfiProgram::Effect CfiProgram::restore(uint64_t reg)
{
	switch (reg) {
	case kRegBp:
		state_.bp = initial_.bp;
		break;
	case kRegSp:
		state_.sp = initial_.sp;
		break;
	case kRegRa:
		state_.ra = initial_.ra;
		break;
	}
	return in_cie_ ? kInvalid : kNone;
}

CfiProgram::Effect CfiProgram::remember()
{
	if (depth_ == kMaxDepth)
		return kInvalid;
	saved_.states[depth_++] = state_;
	return kNone;
}

CfiProgram::Effect CfiProgram::expression(ExpressionUse use)
{
	const uint64_t reg = use == ExpressionUse::kCfa ? 0 : reader_.uleb();
	const uint64_t size = reader_.uleb();
	const unsigned char *bytes = reader_.skip(size);

	if (!bytes)
		return kInvalid;
	if (use != ExpressionUse::kCfa && !slot(reg))
		return kNone;
	const Location location = evaluate_expression(bytes, size, use);

	if (use != ExpressionUse::kCfa)
		return rule(reg, location);
	state_.cfa = location;
	return kNone;
}

CfiProgram::Effect CfiProgram::execute(uint8_t op)
{
	const uint8_t low = op & 0x3f;
	int64_t offset;

	switch (op & 0xc0) {
	case DW_CFA_advance_loc:
		return advance(low);
	case DW_CFA_offset: {
		const uint64_t value = reader_.uleb();

		if (value > kMaxOperand || !factored(static_cast<int64_t>(value), &offset))
			return kInvalid;
		return rule(low, {.kind = Location::kCfaMemory, .offset = offset});
	}
	case DW_CFA_restore:
		return restore(low);
	}
	return execute_extended(op);
}

CfiProgram::Effect CfiProgram::execute_extended(uint8_t op)
{
	uint64_t reg, value;
	int64_t offset;

	switch (op) {
	case DW_CFA_nop:
		return kNone;
	case DW_CFA_set_loc:
		return set_location();
	case DW_CFA_advance_loc1:
		return advance(reader_.u8());
	case DW_CFA_advance_loc2:
		return advance(reader_.u16());
	case DW_CFA_advance_loc4:
		return advance(reader_.u32());
	case DW_CFA_MIPS_advance_loc8:
		return advance(reader_.u64());
	case DW_CFA_offset_extended:
	case DW_CFA_val_offset:
	case DW_CFA_GNU_negative_offset_extended:
		reg = reader_.uleb();
		value = reader_.uleb();
		if (value > kMaxOperand || !factored(static_cast<int64_t>(value), &offset))
			return kInvalid;
		if (op == DW_CFA_GNU_negative_offset_extended)
			offset = -offset;
		return rule(reg, {.kind = op == DW_CFA_val_offset ? Location::kCfaValue :
							 Location::kCfaMemory,
				  .offset = offset});
	case DW_CFA_offset_extended_sf:
	case DW_CFA_val_offset_sf:
		reg = reader_.uleb();
		if (!factored(reader_.sleb(), &offset))
			return kInvalid;
		return rule(reg, {.kind = op == DW_CFA_val_offset_sf ? Location::kCfaValue :
							    Location::kCfaMemory,
				  .offset = offset});
	case DW_CFA_restore_extended:
		return restore(reader_.uleb());
	case DW_CFA_undefined:
		return rule(reader_.uleb(), {.kind = Location::kUndefined});
	case DW_CFA_same_value:
		return rule(reader_.uleb(), {.kind = Location::kSame});
	case DW_CFA_register:
		reg = reader_.uleb();
		return rule(reg, {.kind = Location::kRegister,
				  .reg = register_number(reader_.uleb())});
	case DW_CFA_remember_state:
		return remember();
	case DW_CFA_restore_state:
		if (!depth_)
			return kInvalid;
		state_ = saved_.states[--depth_];
		return kNone;
	case DW_CFA_def_cfa:
		reg = reader_.uleb();
		value = reader_.uleb();
		return value > kMaxOperand ? kInvalid : define_cfa(reg, static_cast<int64_t>(value));
	case DW_CFA_def_cfa_sf:
		reg = reader_.uleb();
		return factored(reader_.sleb(), &offset) ? define_cfa(reg, offset) : kInvalid;
	case DW_CFA_def_cfa_register:
		reg = reader_.uleb();
		return state_.cfa.kind == Location::kRegister ? define_cfa(reg, state_.cfa.offset) :
								kInvalid;
	case DW_CFA_def_cfa_offset:
		value = reader_.uleb();
		return state_.cfa.kind == Location::kRegister && value <= kMaxOperand ?
			define_cfa(state_.cfa.reg, static_cast<int64_t>(value)) : kInvalid;
	case DW_CFA_def_cfa_offset_sf:
		return factored(reader_.sleb(), &offset) && state_.cfa.kind == Location::kRegister ?
			define_cfa(state_.cfa.reg, offset) : kInvalid;
	case DW_CFA_def_cfa_expression:
		return expression(ExpressionUse::kCfa);
	case DW_CFA_expression:
		return expression(ExpressionUse::kAddress);
	case DW_CFA_val_expression:
		return expression(ExpressionUse::kValue);
	case DW_CFA_GNU_args_size:
		reader_.uleb();
		return kNone;
	}
	return kInvalid;
}

CfiProgram::Step CfiProgram::next()
{
	start_ = location_;
	while (reader_.left()) {
		const Effect effect = execute(reader_.u8());

		if (effect == kInvalid || reader_.bad()) {
			// What stood before this row is whole; this row may not be.
			return kBad;
		}
		if (effect == kAdvance)
			return kRow;
	}
	return kLast;
}

bool evaluate_cie(const Cie &cie, CfiState *state)
{
	static constexpr CfiState nothing = {};
	const PointerBase base = {nullptr, 0, 0};
	Fde fde = {};

	fde.program = cie.program;
	fde.program_size = cie.program_size;
	CfiProgram program(cie, nothing, fde, base);

	program.in_cie_ = true;
	if (program.next() != CfiProgram::kLast)
		return false;
	*state = program.state();
	return true;
}

} // namespace sframe
