// SPDX-License-Identifier: MIT
#include "stepper.h"
#include "sys.h"

#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <linux/ptrace.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>

using sframe::sys::call;

namespace {

constexpr size_t max_threads = 8, max_chain = shadow::Record::max_depth + 1;

struct Thread {
	long tid;
	bool started;		// has been seen at its first instruction
	shadow::Record record;
};

// Shared with the tracer, which has no other memory.
struct Session {
	StepReport report;
	Thread thread[max_threads];
	uint64_t base[64];
	size_t base_count;
	const shadow::Range *stacks;
	size_t stack_count;
	volatile long parent;
	volatile int attached;	// 1: go on; -errno: cannot
	volatile int finished;
};

Session session;
alignas(64) char tracer_stack[256 << 10];

long ptrace_raw(long request, long tid, long addr, long data)
{
	return call(__NR_ptrace, request, tid, addr, data);
}

bool get_registers(long tid, sframe_regs *regs)
{
	user_regs_struct u;
	iovec iov = { &u, sizeof(u) };

	if (ptrace_raw(PTRACE_GETREGSET, tid, NT_PRSTATUS, (long)&iov))
		return false;
	const uint64_t by_dwarf[SFRAME_REGS_COUNT] = {
		u.rax, u.rdx, u.rcx, u.rbx, u.rsi, u.rdi, u.rbp, u.rsp, u.r8,
		u.r9, u.r10, u.r11, u.r12, u.r13, u.r14, u.r15, u.rip,
	};
	for (size_t i = 0; i < SFRAME_REGS_COUNT; i++)
		regs->reg[i] = by_dwarf[i];
	regs->valid = (1u << SFRAME_REGS_COUNT) - 1;
	regs->exact = 1;
	return true;
}

struct Chain {
	uint64_t pc[max_chain];
	size_t count;
};

// Is @got from its frame @from on what @expected is from @at on, as far as it goes?
bool prefix(const Chain &got, size_t from, const Chain &expected, size_t at)
{
	if (got.count < from || got.count - from > expected.count - at)
		return false;
	for (size_t i = from; i < got.count; i++)
		if (got.pc[i] != expected.pc[at + i - from])
			return false;
	return true;
}

// While sp is set for a jump and control has not followed, the place jumped to
// may already count as the caller, one frame more than recorded.
bool jumps(const Chain &got, const Chain &expected)
{
	return prefix(got, 0, expected, 0) || got.count == 1 || prefix(got, 2, expected, 1);
}

void record_failure(StepFailure *failure, int stop, const Chain &got, const Chain &expected)
{
	failure->step = session.report.steps;
	failure->stop = stop;
	failure->got_count = got.count;
	failure->expected_count = expected.count;
	for (size_t i = 0; i < std::size(failure->got); i++) {
		failure->got[i] = i < got.count ? got.pc[i] : 0;
		failure->expected[i] = i < expected.count ? expected.pc[i] : 0;
	}
}

void note_failure(int stop, const Chain &got, const Chain &expected)
{
	StepReport &report = session.report;

	report.wrong++;
	if (report.failures == std::size(report.failure))
		return;
	record_failure(&report.failure[report.failures++], stop, got, expected);
}

// The last instruction before sp is set may say where it will go (CFA = rcx):
// a mismatch is judged when the next instruction shows whether this is a jump.
struct Doubt {
	bool open;
	int stop;
	Chain got, expected;
};

Chain got, expected;
Doubt doubt;

void settle(bool jumping)
{
	if (!doubt.open)
		return;
	doubt.open = false;
	if (jumping && jumps(doubt.got, expected))
		session.report.jumping++;
	else
		note_failure(doubt.stop, doubt.got, doubt.expected);
}

void compare(const shadow::Record &record, const sframe_regs &regs)
{
	StepReport &report = session.report;
	sframe_trace trace = {};

	trace.size = sizeof(trace);
	got.count = size_t(sframe_unwind(&regs, got.pc, max_chain, SFRAME_UNWIND_CHECKED, &trace));
	expected.count = record.chain(expected.pc, max_chain);

	report.steps++;
	report.frames_sframe += trace.frames_sframe;
	report.frames_fp += trace.frames_fp;
	report.frames_signal += trace.frames_signal;
	settle(record.jumping());
	if (record.jumping()) {
		if (jumps(got, expected))
			report.jumping++;
		else
			note_failure(int(trace.stop), got, expected);
		return;
	}
	const bool reached = trace.stop == SFRAME_STOP_OUTERMOST;

	if (!prefix(got, 0, expected, 0) || (reached && got.count != expected.count))
		doubt = { true, int(trace.stop), got, expected };
	else if (reached)
		report.complete++;
	else if (report.missing[trace.stop]++ == 0)
		record_failure(&report.first_missing[trace.stop], int(trace.stop), got, expected);
}

Thread *find_thread(long tid)
{
	for (Thread &thread : session.thread)
		if (thread.tid == tid)
			return &thread;
	for (Thread &thread : session.thread)
		if (thread.tid == 0) {
			thread.tid = tid;
			session.report.threads++;
			for (size_t i = 0; i < session.stack_count; i++)
				thread.record.add_stack(session.stacks[i]);
			return &thread;
		}
	return nullptr;
}

// A thread has stopped: bring its record up to date, and compare.
void observe(Thread &thread, bool in_handler)
{
	sframe_regs regs;

	if (!get_registers(thread.tid, &regs))
		return;
	const shadow::Registers now = { regs.reg[16], regs.reg[7] };

	if (!thread.started) {
		const bool first = thread.tid == session.parent;

		thread.record.begin(session.base, first ? session.base_count : 0, now);
		thread.started = true;
	} else if (in_handler) {
		thread.record.signal(now);
		session.report.signals++;
	} else {
		thread.record.advance(now);
	}
	session.report.overflowed |= thread.record.overflowed();
	compare(thread.record, regs);
}

// Before a signal is let through: has an instruction been executed since?
void catch_up(Thread &thread)
{
	sframe_regs regs;

	if (thread.started && get_registers(thread.tid, &regs))
		thread.record.advance({ regs.reg[16], regs.reg[7] });
}

// Will a handler run for @sig? (Dispositions are shared: CLONE_SIGHAND.)
bool handled(int sig)
{
	uint64_t action[4] = {};	// the kernel's: handler, flags, restorer, mask

	return call(__NR_rt_sigaction, sig, 0, (long)action, 8) == 0 && action[0] > 1;
}

// One stop of one thread. Returns false once all is over.
bool handle_stop(Thread &thread, int status)
{
	const int sig = status >> 8 & 0xff, event = status >> 16;

	if (thread.tid == session.parent && session.finished) {
		settle(false);
		ptrace_raw(PTRACE_DETACH, thread.tid, 0, 0);
		return false;
	}
	if (event || sig == SIGTRAP) {
		// A clone event stops behind the syscall instruction: nothing ran since.
		if (!event || !thread.started)
			observe(thread, false);
		ptrace_raw(PTRACE_SINGLESTEP, thread.tid, 0, 0);
		return true;
	}
	catch_up(thread);
	ptrace_raw(PTRACE_SINGLESTEP, thread.tid, 0, sig);
	if (handled(sig)) {
		int next;
		if (call(__NR_wait4, thread.tid, (long)&next, __WALL, 0) == thread.tid) {
			observe(thread, true);
			ptrace_raw(PTRACE_SINGLESTEP, thread.tid, 0, 0);
		}
	}
	return true;
}

int tracer(void *)
{
	int status;

	while (!session.parent)
		;
	long err = ptrace_raw(PTRACE_SEIZE, session.parent, 0, PTRACE_O_TRACECLONE);
	if (!err)
		err = ptrace_raw(PTRACE_INTERRUPT, session.parent, 0, 0);
	if (err) {
		session.attached = int(err);
		return 1;
	}
	bool first = true;
	for (;;) {
		const long tid = call(__NR_wait4, -1, (long)&status, __WALL, 0);

		if (tid == -EINTR)
			continue;
		if (tid < 0)
			return 1;
		Thread *thread = find_thread(tid);
		if (!thread)
			return 1;
		if (WIFEXITED(status) || WIFSIGNALED(status)) {
			thread->tid = -1;
			continue;
		}
		if (!handle_stop(*thread, status))
			return 0;
		if (first)
			session.attached = 1;
		first = false;
	}
}

void append_chain(std::string *out, const char *title, const uint64_t *pcs, size_t count)
{
	char line[256];

	*out += title;
	for (size_t i = 0; i < count && i < 24; i++) {
		Dl_info info = {};

		dladdr((void *)pcs[i], &info);
		const char *file = info.dli_fname ? strrchr(info.dli_fname, '/') : nullptr;
		snprintf(line, sizeof(line), "    %#" PRIx64 " %s+%#" PRIx64 " (%s)\n", pcs[i],
			 file ? file + 1 : "?", pcs[i] - (uint64_t)info.dli_fbase,
			 info.dli_sname ? info.dli_sname : "?");
		*out += line;
	}
}

} // namespace

std::string StepReport::text() const
{
	char line[512];
	std::string out;

	snprintf(line, sizeof(line),
		 "%" PRIu64 " steps: %" PRIu64 " complete, %" PRIu64 " missing, %" PRIu64
		 " between jumps, %" PRIu64 " wrong; frames: %" PRIu64 " sframe, %" PRIu64
		 " fp, %" PRIu64 " signal; %" PRIu64 " threads, %" PRIu64 " signals\n",
		 steps, complete, missing_total(), jumping, wrong, frames_sframe, frames_fp,
		 frames_signal, threads, signals);
	out += line;
	for (int stop = 0; stop < SFRAME_STOP_COUNT; stop++)
		if (missing[stop]) {
			snprintf(line, sizeof(line), "  missing: %s %" PRIu64 "\n",
				 sframe_stop_name(stop), missing[stop]);
			out += line;
			append_chain(&out, "  first where:\n", first_missing[stop].expected,
				     first_missing[stop].got_count + 1);
		}
	for (size_t i = 0; i < failures; i++) {
		snprintf(line, sizeof(line), "wrong at step %" PRIu64 ", stop: %s\n",
			 failure[i].step, sframe_stop_name(failure[i].stop));
		out += line;
		append_chain(&out, "  got:\n", failure[i].got, failure[i].got_count);
		append_chain(&out, "  expected:\n", failure[i].expected, failure[i].expected_count);
	}
	return out;
}

__attribute__((noinline)) StepReport step_through(void (*body)(), const shadow::Range *stacks,
						  size_t count)
{
	void *base[64];
	int status;

	session = {};
	session.stacks = stacks;
	session.stack_count = count;
	// glibc's unwinder, on .eh_frame, says what lies below: another judge.
	const int found = backtrace(base, 64);
	for (int i = 1; i < found; i++)
		session.base[session.base_count++] = (uint64_t)base[i];

	const int child = clone(tracer, tracer_stack + sizeof(tracer_stack), CLONE_VM | CLONE_SIGHAND | SIGCHLD,
				nullptr);
	if (child < 0) {
		session.report.why_not = -errno;
		return session.report;
	}
	prctl(PR_SET_PTRACER, child);
	session.parent = getpid();
	while (!session.attached)
		;
	if (session.attached == 1) {
		session.report.ran = true;
		body();
		session.finished = 1;
	} else {
		session.report.why_not = session.attached;
	}
	asm volatile("" ::: "memory");
	waitpid(child, &status, __WALL);
	return session.report;
}
