// SPDX-License-Identifier: MIT
//
// The walk: from frame to frame by cached rule, else by the row that registry
// and core find, else by frame pointer.
#include "unwind_walk.h"
#include "return_mark.h"
#include "unwind_rule.h"
#include "unwind_trail.h"

#include <climits>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace sframe {
namespace {

RuleCache cache;
Trails trails;
constexpr int going_on = -1;	// no enum sframe_stop
constexpr int no_frame = -4096;	// no enum sframe_status, no error

// Readers of section bytes are announced, so that a removal can wait for them.
class Reading {
public:
	Reading() : token_(registry_read_enter()) {}
	~Reading() { registry_read_leave(token_); }
	Reading(const Reading &) = delete;
	Reading &operator=(const Reading &) = delete;

private:
	const uint32_t token_;
};

int stop_reason(int status)
{
	switch (status) {
	case SFRAME_OUTERMOST:
		return SFRAME_STOP_OUTERMOST;
	case SFRAME_UNREADABLE:
		return SFRAME_STOP_UNREADABLE;
	case SFRAME_UNSUPPORTED_REG:
		return SFRAME_STOP_UNSUPPORTED_REG;
	case SFRAME_NO_PROGRESS:
		return SFRAME_STOP_NO_PROGRESS;
	case SFRAME_NOT_COVERED:
	case SFRAME_UNSUPPORTED_ABI:
		return SFRAME_STOP_NOT_COVERED;
	case -EBUSY:
		return SFRAME_STOP_BUSY;
	default:
		return SFRAME_STOP_CORRUPT;
	}
}

// A frame as the hot loop holds it, in registers.
struct Hot {
	uint64_t pc, sp, fp;
};

class Walk {
public:
	Walk(const sframe_regs &regs, uint64_t window, unsigned int flags, uint64_t *pcs, size_t max,
	     Trail *trail)
		: Walk(regs, window, flags, pcs, max, trail, registry_generation())
	{
	}

	int run();
	void report(sframe_trace *trace) const;

	// What later walks of this thread may take as readable; 0 if this one
	// met anything odd.
	uint64_t window() const
	{
		const bool sound = frames_fp_ == 0 && (stop_ == SFRAME_STOP_OUTERMOST ||
						       stop_ == SFRAME_STOP_DEPTH);

		return sound ? stack_.around(frame_.sp).pack() : 0;
	}

private:
	// The generation is read before anything is looked up.
	Walk(const sframe_regs &regs, uint64_t window, unsigned int flags, uint64_t *pcs, size_t max,
	     Trail *trail, uint64_t generation)
		: stack_(regs, window), trail_(trail), generation_(generation), exact_era_(generation, true),
		  return_era_(generation, false), flags_(flags), pcs_(pcs), max_(max)
	{
		frame_.pc = regs.reg[16];
		frame_.sp = regs.reg[7];
		frame_.fp = regs.reg[6];
		frame_.exact = regs.exact != 0;
		frame_.topmost = 1;
	}

	int follow_cached();
	void note_no_step();
	void arrive(const Hot &at, size_t steps);
	int find_row(sframe_row *row);
	bool at_marked_ret(const sframe_row &row);
	void retract();
	int step();

	Stack stack_;
	Trail *const trail_;
	sframe_frame frame_ = {};	// pcs_[count_ - 1] is its PC
	const uint64_t generation_;
	const RuleCache::Era exact_era_, return_era_;
	const unsigned int flags_;
	uint64_t *const pcs_;
	const size_t max_;
	size_t count_ = 0;
	uint32_t frames_sframe_ = 0, frames_fp_ = 0, frames_signal_ = 0;
	int stop_ = SFRAME_STOP_DEPTH;
};

// A verified window in the form that takes one comparison a load.
class Reach {
public:
	explicit Reach(const Window &window)
		: lo_(window.lo()), last_(window.hi() - window.lo() - sizeof(uint64_t))
	{
	}

	bool word(uint64_t addr, uint64_t *value) const
	{
		if (addr - lo_ > last_) [[unlikely]]
			return false;
		*value = raw_word(addr);
		return true;
	}

private:
	uint64_t lo_, last_;
};

// The caller of @at by an ordinary rule: what sframe_row_apply() does, on the
// cached form. False: let the core do it again, and say what is wrong.
inline __attribute__((always_inline)) bool apply_cached(Rule rule, const Hot &at, Hot *next,
							uint64_t *saved, const Reach &stack)
{
	const Rule::Kind kind = rule.kind();
	uint64_t cfa = (kind == Rule::Sp ? at.sp : at.fp) + uint64_t(rule.cfa_offset());

	if (kind > Rule::Fp) [[unlikely]]
		if (kind != Rule::FpDeref || !stack.word(cfa, &cfa))
			return false;
	if (cfa <= at.sp || !stack.word(cfa - 8, &next->pc) || next->pc == 0) [[unlikely]]
		return false;
	next->sp = cfa;
	next->fp = at.fp;
	*saved = Trail::unchanged;
	if (rule.fp_rule() == Rule::Same)
		return true;
	const uint64_t slot = (rule.fp_rule() == Rule::AtCfa ? cfa : at.fp) +
			      uint64_t(rule.fp_offset());
	if (slot - at.sp >= cfa - at.sp) [[unlikely]]
		// Of a realigned frame: see sframe_fp_is_callers(). Else below sp.
		return rule.fp_rule() == Rule::AtFp;
	*saved = slot;
	return stack.word(slot, &next->fp);
}

// The hot loop: follows the trail, and ordinary cached rules, as far as they
// lead inside of the verified stack. What is left to step() is a frame that
// needs more.
int Walk::follow_cached()
{
	const Window window = stack_.around(frame_.sp);
	if (window.empty())
		return going_on;
	const Reach reach(window);
	Trail *const trail = trail_;
	RuleCache::Era era = frame_.exact ? exact_era_ : return_era_;
	bool exact = frame_.exact;
	Hot at = { frame_.pc, frame_.sp, frame_.fp }, next;
	uint64_t *const begin = pcs_ + count_, *const end = pcs_ + max_;
	uint64_t *out = begin, saved;
	Rule rule;

	while (out < end) {
		if (!exact && trail && trail->meets(at.pc, at.sp, at.fp)) {
			const Trail::Frame &frame = trail->follow(&out, end, window);
			at = { frame.pc, frame.sp, frame.fp };
			if (out == end)
				break;
		}
		rule = cache.find(era, at.pc);
		if (!rule || !apply_cached(rule, at, &next, &saved, reach))
			break;
		if (!exact && trail)
			trail->note({ at.pc, at.sp, at.fp, saved });
		exact = false;
		era = return_era_;
		at = next;
		*out++ = at.pc;
	}
	if (out != begin)
		arrive(at, size_t(out - begin));
	return out < end && rule.kind() == Rule::Outermost ? int(SFRAME_STOP_OUTERMOST) : going_on;
}

// The hot loop has gone @steps frames.
void Walk::arrive(const Hot &at, size_t steps)
{
	frames_sframe_ += uint32_t(steps);
	count_ += steps;
	frame_ = {};
	frame_.pc = at.pc;
	frame_.sp = at.sp;
	frame_.fp = at.fp;
}

// A return address that leads to a ret in a function without a frame, and from
// there to the mark: dlopen()'s under libsframe-preload.so.
bool Walk::at_marked_ret(const sframe_row &row)
{
	const uint32_t mark = SFRAME_RETURN_MARK;
	uint8_t insn[7];
	uint64_t target;

	if (row.cfa.base != SFRAME_RULE_REG || row.cfa.reg != SFRAME_AMD64_REG_SP ||
	    row.cfa.deref || row.cfa.offset != 8)
		return false;
	return stack_.code(frame_.pc, insn, 1) && insn[0] == 0xc3 &&
	       stack_.word(frame_.sp, &target) && stack_.code(target, insn, sizeof(insn)) &&
	       insn[0] == 0x0f && insn[1] == 0x1f && insn[2] == 0x80 &&
	       !__builtin_memcmp(insn + 3, &mark, sizeof(mark));
}

// The row of the frame's PC: from the cache, else from the registry. A row is
// learned only for a PC that can be one: what a damaged stack or a wrong row
// (assembly whose CFI forgets a push) gives for a return address is behind no
// call, and no frame at all.
int Walk::find_row(sframe_row *row)
{
	const RuleCache::Era era = frame_.exact ? exact_era_ : return_era_;

	if (const Rule rule = cache.find(era, frame_.pc)) {
		*row = rule.row();
		return SFRAME_OK;
	}
	const int status = unwind_find_row(sframe_frame_lookup_pc(&frame_), row);
	if (status != SFRAME_OK && status != SFRAME_NOT_COVERED)
		return status;
	const bool restorer = status == SFRAME_OK && row->signal;
	if (!frame_.exact && !restorer && !unwind_behind_call(frame_.pc, stack_) &&
	    !(status == SFRAME_OK && at_marked_ret(*row)))
		return count_ > 1 ? no_frame : status;
	if (status == SFRAME_OK)
		if (const Rule rule = Rule::from_row(*row))
			cache.insert(era, frame_.pc, rule);
	return status;
}

// The frame that the last step arrived at is none.
void Walk::retract()
{
	count_--;
	frames_sframe_--;
	frame_.pc = pcs_[count_ - 1];
}

// One step by whatever there is. Counts it, unless it arrives nowhere.
int Walk::step()
{
	sframe_frame next = frame_;
	uint32_t *counter = &frames_sframe_;
	sframe_row row;
	int status = find_row(&row);

	if (status == no_frame) {
		retract();
		return SFRAME_STOP_CORRUPT;
	}
	if (status == SFRAME_OK) {
		status = sframe_row_apply(&row, &next, &stack_);
	} else if (status == SFRAME_NOT_COVERED && !(flags_ & SFRAME_UNWIND_NO_FP) &&
		   unwind_fp_step(&next, stack_)) {
		counter = &frames_fp_;
		status = SFRAME_OK;
	}
	if (status)
		return stop_reason(status);
	if (next.pc == 0 && !next.exact)
		return SFRAME_STOP_ZERO_RA;
	if (count_ == max_)
		return SFRAME_STOP_DEPTH;
	++*counter;
	frames_signal_ += next.exact;
	frame_ = next;
	pcs_[count_++] = frame_.pc;
	return going_on;
}

int Walk::run()
{
	if (max_ == 0)
		return 0;
	pcs_[count_++] = frame_.pc;
	if (trail_)
		trail_->begin(generation_);
	while ((stop_ = follow_cached()) == going_on) {
		note_no_step();
		if ((stop_ = step()) != going_on)
			break;
	}
	if (trail_ && !trail_->complete()) {
		note_no_step();
		trail_->end();
	}
	return int(count_);
}

// How the frame's caller is found is not for the trail; an interrupted frame
// is no part of it at all.
void Walk::note_no_step()
{
	if (trail_ && !frame_.exact)
		trail_->note({ frame_.pc, frame_.sp, frame_.fp, Trail::no_step });
}

void Walk::report(sframe_trace *trace) const
{
	const sframe_trace full = {
		.size = trace->size,
		.stop = uint32_t(stop_),
		.frames_sframe = frames_sframe_,
		.frames_fp = frames_fp_,
		.frames_signal = frames_signal_,
		.stop_pc = frame_.pc,
	};

	__builtin_memcpy(trace, &full, trace->size < sizeof(full) ? trace->size : sizeof(full));
}

} // namespace

int unwind_find_row(uint64_t pc, sframe_row *row)
{
	const Reading reading;
	Covering covering;
	int err = registry_lookup(pc, &covering);

	if (err)
		return err == -ENOENT ? int(SFRAME_NOT_COVERED) : err;
	if (covering.section.abi != SFRAME_ABI_AMD64_ENDIAN_LITTLE)
		return SFRAME_UNSUPPORTED_ABI;
	return sframe_lookup(&covering.section, pc, row, nullptr);
}

int unwind_walk(const sframe_regs &regs, uint64_t *pcs, size_t max, unsigned int flags,
		sframe_trace *trace, std::atomic<uint64_t> *window)
{
	const uint64_t known = window ? window->load(std::memory_order_relaxed) : 0;
	Trail &trail = trails.of(regs.reg[7]);
	const bool taken = trail.take();
	Walk walk(regs, known, flags, pcs, max < INT_MAX ? max : INT_MAX, taken ? &trail : nullptr);
	const int count = walk.run();

	if (taken)
		trail.leave();

	if (trace)
		walk.report(trace);
	if (window && walk.window() != known && walk.window())
		window->store(walk.window(), std::memory_order_relaxed);
	return count;
}

__attribute__((weak)) std::atomic<uint64_t> *unwind_thread_window() { return nullptr; }

} // namespace sframe

using namespace sframe;

EXPORT int sframe_unwind(const struct sframe_regs *regs, uint64_t *pcs, size_t max,
			 unsigned int flags, struct sframe_trace *trace)
{
	constexpr unsigned int known = SFRAME_UNWIND_NO_FP | SFRAME_UNWIND_CHECKED;
	constexpr unsigned int needed = 1u << 6 | 1u << 7 | 1u << 16;

	if (flags & ~known || (regs->valid & needed) != needed)
		return -EINVAL;
	return unwind_walk(*regs, pcs, max, flags, trace,
			   flags & SFRAME_UNWIND_CHECKED ? nullptr : unwind_thread_window());
}

// From unwind_entry.S, with the registers of the frame that called sframe_backtrace().
extern "C" int sframe_backtrace_from(uint64_t *pcs, size_t max, struct sframe_trace *trace,
				     const struct sframe_regs *regs)
{
	return unwind_walk(*regs, pcs, max, 0, trace, unwind_thread_window());
}

EXPORT void sframe_regs_from_ucontext(struct sframe_regs *regs, const void *ucontext)
{
	for (unsigned int reg = 0; reg < SFRAME_REGS_COUNT; reg++) {
		unsigned int offset = 0;

		sframe_amd64_sigctx_offset(reg, &offset);
		__builtin_memcpy(&regs->reg[reg], static_cast<const char *>(ucontext) + offset, 8);
	}
	regs->valid = (1u << SFRAME_REGS_COUNT) - 1;
	regs->exact = 1;
}

EXPORT const char *sframe_stop_name(int stop)
{
	switch (stop) {
	case SFRAME_STOP_OUTERMOST:
		return "outermost";
	case SFRAME_STOP_DEPTH:
		return "depth";
	case SFRAME_STOP_NOT_COVERED:
		return "not covered";
	case SFRAME_STOP_CORRUPT:
		return "corrupt";
	case SFRAME_STOP_UNREADABLE:
		return "unreadable";
	case SFRAME_STOP_UNSUPPORTED_REG:
		return "unsupported register";
	case SFRAME_STOP_NO_PROGRESS:
		return "no progress";
	case SFRAME_STOP_ZERO_RA:
		return "zero return address";
	case SFRAME_STOP_BUSY:
		return "registry busy";
	}
	return "unknown";
}
