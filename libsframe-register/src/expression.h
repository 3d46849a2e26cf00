// SPDX-License-Identifier: MIT
//
// DWARF expressions in call frame information, evaluated symbolically to the
// few forms that SFrame can state.
#pragma once

#include <cstdint>

namespace sframe {

// Where the CFA or a register's value in the caller is.
struct Location {
	enum Kind : uint8_t {
		kUnset = 0,	// no rule was given
		kUndefined,
		kSame,		// still in its register
		kRegister,	// reg + offset
		kMemory,	// *(reg + offset)
		kCfaValue,	// CFA + offset
		kCfaMemory,	// *(CFA + offset)
		kPlt,		// reg + offset + ((rip & mask) >= threshold) << shift
		kUnknown,	// an expression of no known form
	};

	Kind kind = kUnset;
	uint8_t mask = 0;
	uint8_t threshold = 0;
	uint8_t shift = 0;
	uint32_t reg = 0;	// DWARF number
	int64_t offset = 0;

	bool operator==(const Location &) const = default;
};

enum class ExpressionUse {
	kCfa,		// DW_CFA_def_cfa_expression: the value, nothing on the stack before
	kAddress,	// DW_CFA_expression: where the value is, the CFA on the stack
	kValue,		// DW_CFA_val_expression: the value, the CFA on the stack
};

// Never fails: what is not understood is kUnknown.
Location evaluate_expression(const unsigned char *bytes, uint64_t size, ExpressionUse use);

} // namespace sframe
