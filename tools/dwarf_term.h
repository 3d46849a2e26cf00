// SPDX-License-Identifier: MIT
//
// A DWARF expression's value over symbolic registers: a constant, a register
// (or the CFA) plus a constant, what memory holds at such an address (plus a
// constant), or something else. rip is not symbolic: an expression of CFI is
// asked about one PC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <elfutils/libdw.h>
#include <sframe/decode.h>

struct Term {
	enum Kind { OTHER, CONSTANT, LINEAR, MEMORY };

	Kind kind = OTHER;
	uint8_t base = SFRAME_BASE_NONE;	// SFRAME_BASE_CFA or SFRAME_BASE_REG
	uint16_t reg = 0;
	int64_t offset = 0;	// of the constant, the register, or the address in memory
	int64_t plus = 0;	// MEMORY: added to what was read

	static Term constant(int64_t value);
	static Term in_register(unsigned reg, int64_t offset);
	static Term cfa(int64_t offset);
	Term deref() const;
	std::string text() const;
};

struct Evaluation {
	Term term;
	bool is_value = false;	// DW_OP_stack_value or a register: not an address in memory
	bool used_pc = false;
};

// Evaluates at @pc. A register operation counts as the register's value.
Evaluation evaluate_expression(const Dwarf_Op *ops, size_t count, uint64_t pc);
