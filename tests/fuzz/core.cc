// SPDX-License-Identifier: MIT
//
// The core over arbitrary bytes. The input's first bytes choose options, what
// is looked up and whether the section changes while it is read; the rest is
// the section. Every read of a lookup must lie inside of the section, their
// number below the stated bound, and what is found must hold together.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

struct Io {
	std::vector<uint8_t> section;
	uint64_t address;
	uint64_t stack_address;
	std::vector<uint8_t> stack;
	bool section_only;	// a lookup has no business elsewhere
	bool mutate;
	uint32_t random;
	uint64_t reads;
};

bool copy(const std::vector<uint8_t> &from, uint64_t base, void *dst, uint64_t addr, uint64_t len)
{
	uint64_t at = addr - base;

	if (at > from.size() || len > from.size() - at)
		return false;
	memcpy(dst, from.data() + at, len);
	return true;
}

int read_memory(void *arg, void *dst, uint64_t addr, uint64_t len)
{
	Io *io = static_cast<Io *>(arg);

	io->reads++;
	if (copy(io->section, io->address, dst, addr, len)) {
		if (io->mutate) {
			io->random = io->random * 1664525 + 1013904223;
			io->section[io->random % io->section.size()] ^= io->random >> 24;
		}
		return 0;
	}
	if (io->section_only)
		abort();
	return copy(io->stack, io->stack_address, dst, addr, len) ? 0 : -1;
}

int read_register(void *arg, unsigned int reg, uint64_t *value)
{
	Io *io = static_cast<Io *>(arg);

	*value = io->stack_address + 8 * reg;
	return reg & 1;
}

} // namespace

#define SFRAME_CORE_FOREIGN 1
#define SFRAME_CORE_READ(io, dst, addr, len) read_memory(io, dst, addr, len)
#define SFRAME_CORE_REG(io, reg, value) read_register(io, reg, value)
#include "sframe_core.h"

namespace {

void expect(bool holds)
{
	if (!holds)
		abort();
}

// The row by walking all of them: what sframe_row_find() must agree with.
int walk_to_row(const sframe_section &sec, const sframe_fde &fde, uint64_t pc, sframe_row *found,
		Io *io)
{
	uint32_t off = static_cast<uint32_t>(pc - fde.start);
	uint64_t cursor = fde.row_addr;
	int status = SFRAME_NOT_COVERED;

	if (fde.pctype == SFRAME_FDE_PCTYPE_MASK)
		off %= fde.rep_size;
	for (uint32_t i = 0; i < fde.num_rows; i++) {
		sframe_row row;
		int next = sframe_row_next(&sec, &fde, &cursor, &row, io);

		if (next == SFRAME_OK && row.start > off)
			break;
		status = next;
		if (next)
			break;
		*found = row;
	}
	return status;
}

void compare(const sframe_row &a, const sframe_row &b)
{
	expect(a.start == b.start && a.outermost == b.outermost && a.signal == b.signal);
	expect(!memcmp(&a.cfa, &b.cfa, sizeof(a.cfa)));
	expect(!memcmp(&a.ra, &b.ra, sizeof(a.ra)));
	expect(!memcmp(&a.fp, &b.fp, sizeof(a.fp)));
}

void look_up(const sframe_section &sec, uint64_t pc, Io *io)
{
	sframe_fde fde;
	sframe_row row, walked;

	io->reads = 0;
	int status = sframe_lookup(&sec, pc, &row, io);
	expect(io->reads <= SFRAME_MAX_LOOKUP_READS);
	expect(status >= SFRAME_OK && status <= SFRAME_UNREADABLE);
	if (status == SFRAME_OK)
		expect(row.start < row.end);
	if (io->mutate || sframe_fde_find(&sec, pc, &fde, nullptr, io))
		return;
	expect(pc - fde.start < fde.size);
	if (status || !fde.num_rows)
		return;
	// The walk decodes the rows that a search only skips: it may fail earlier.
	if (walk_to_row(sec, fde, pc, &walked, io) == SFRAME_OK)
		compare(row, walked);
}

void walk_section(const sframe_section &sec, Io *io)
{
	for (uint32_t i = 0; i < sec.max_fdes && i < 64; i++) {
		sframe_fde fde;

		if (sframe_fde_get(&sec, i, &fde, io))
			continue;
		expect(fde.row_addr <= fde.row_end);
		look_up(sec, fde.start, io);
		look_up(sec, fde.start + fde.size / 2, io);
		look_up(sec, fde.start + fde.size - 1, io);
	}
}

void step(const sframe_section &sec, uint64_t pc, Io *io)
{
	sframe_frame frame = {};

	frame.pc = pc;
	frame.sp = io->stack_address;
	frame.fp = io->stack_address + 16;
	frame.exact = frame.topmost = 1;
	for (int depth = 0; depth < 64; depth++) {
		sframe_frame before = frame;

		io->reads = 0;
		int status = sframe_step(&sec, &frame, io);
		// CFA, RA and FP: a register of the context and a slot each
		expect(io->reads <= SFRAME_MAX_LOOKUP_READS + 6);
		if (status) {
			expect(!memcmp(&before, &frame, sizeof(frame)));
			return;
		}
		expect(frame.exact || frame.sp > before.sp || (before.exact && frame.sp == before.sp));
	}
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	constexpr size_t HEAD = 16;
	sframe_section sec;
	uint64_t pc;
	Io io = {};

	if (size < HEAD)
		return 0;
	unsigned int options = data[0] & 0xf;
	io.mutate = data[1] & 1;
	memcpy(&io.random, data + 2, 4);
	memcpy(&pc, data + 8, 8);
	io.section.assign(data + HEAD, data + size);
	io.address = 0x400000;
	io.stack_address = 0x7ffc0000;
	io.stack.resize(1024);
	for (size_t i = 0; i < io.stack.size(); i += 8) {
		uint64_t value = i & 8 ? io.address + pc % 4096 : io.stack_address + i + 32;
		memcpy(io.stack.data() + i, &value, 8);
	}

	io.section_only = true;
	int status = sframe_section_parse(&sec, io.address, io.section.size(), 0x10000, options, &io);
	expect(io.reads <= 4);
	if (status)
		return 0;
	if (!(options & SFRAME_PARSE_UNSORTED) || sec.flags & SFRAME_F_FDE_SORTED) {
		look_up(sec, pc, &io);
		look_up(sec, io.address + pc, &io);
	}
	walk_section(sec, &io);
	io.section_only = false;
	step(sec, pc, &io);
	step(sec, io.address + pc % 4096, &io);
	return 0;
}
