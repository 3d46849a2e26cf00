// SPDX-License-Identifier: MIT
//
// Evaluation of call frame instructions (DWARF 5, 6.4) for the registers that
// a stack trace needs: CFA, return address, rbp and rsp. What other registers
// do is decoded and left.
#pragma once

#include <cstdint>
#include "eh_frame.h"
#include "expression.h"

namespace sframe {

inline constexpr uint32_t kRegBp = 6;
inline constexpr uint32_t kRegSp = 7;
inline constexpr uint32_t kRegRa = 16;

// The rules at one address.
struct CfiState {
	Location cfa;
	Location ra;
	Location bp;
	Location sp;

	bool operator==(const CfiState &) const = default;
};

// The state that a CIE's instructions leave; false if they do not decode.
bool evaluate_cie(const Cie &cie, CfiState *state);

// Steps through an FDE's rows. Rows are not cut to the function's size: the
// last one is open-ended.
class CfiProgram {
public:
	CfiProgram(const Cie &cie, const CfiState &initial, const Fde &fde, const PointerBase &base)
		: cie_(cie), initial_(initial), state_(initial), base_(&base),
		  reader_(fde.program, fde.program_size), begin_(fde.program),
		  vaddr_(fde.program_vaddr), function_(fde.start)
	{
	}

	enum Step {
		kRow,	// state() holds from start() to the next row
		kLast,	// and to the function's end
		kBad,	// nothing is known from start() to the function's end
	};

	Step next();
	uint64_t start() const { return start_; }
	const CfiState &state() const { return state_; }
	// True if the rows depend on where the function is (DW_CFA_set_loc).
	bool absolute() const { return absolute_; }

private:
	friend bool evaluate_cie(const Cie &cie, CfiState *state);

	// More than any producer nests; callers' stacks may be small.
	static constexpr unsigned int kMaxDepth = 16;

	enum Effect { kNone, kAdvance, kInvalid };

	Effect execute(uint8_t op);
	Effect execute_extended(uint8_t op);
	Effect advance(uint64_t delta);
	Effect set_location();
	Effect define_cfa(uint64_t reg, int64_t offset);
	Effect rule(uint64_t reg, const Location &location);
	Effect restore(uint64_t reg);
	Effect remember();
	Effect expression(ExpressionUse use);
	Location *slot(uint64_t reg);
	bool factored(int64_t value, int64_t *offset);

	const Cie &cie_;
	const CfiState &initial_;
	CfiState state_;
	const PointerBase *base_;
	Reader reader_;
	const unsigned char *begin_;
	uint64_t vaddr_;
	uint64_t function_;
	uint64_t start_ = 0;
	uint64_t location_ = 0;
	unsigned int depth_ = 0;
	bool absolute_ = false;
	bool in_cie_ = false;
	// Not initialized: most functions remember nothing.
	union Saved {
		Saved() {}
		CfiState states[kMaxDepth];
	} saved_;
};

} // namespace sframe
