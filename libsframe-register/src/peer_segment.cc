// SPDX-License-Identifier: MIT
//
// A segment, read while its owner may be writing it, by somebody who trusts
// neither the owner nor the bytes: copied, checked, then used.
#include "export.h"
#include "peer.h"
#include "sys.h"

#include <cstring>

namespace sframe {

namespace {

constexpr uint32_t block = 64;		// entries that are copied at a time
constexpr int entry_tries = 100;	// an entry that stays odd has a dead writer

class Segment {
public:
	explicit Segment(const PeerBytes &source) : bytes(source) {}

	int header(PeerSummary *summary)
	{
		if (bytes.read(bytes.io, 0, &head, sizeof(head)) || head.magic != export_magic ||
		    head.layout != export_layout || head.entry_size != sizeof(ExportEntry) ||
		    head.chunk_count > 2 * export_chunks)
			return -EBADMSG;
		for (uint32_t i = 0; i < head.chunk_count; i++)
			if (!take_chunk(head.chunk[i]))
				return -EBADMSG;
		summary->backend = head.backend;
		memset(&summary->stats, 0, sizeof(summary->stats));
		summary->stats.size = sizeof(summary->stats);
		memcpy(&summary->stats.registered, head.stats, sizeof(head.stats));
		return 0;
	}

	int entries(PeerRanges *ranges)
	{
		uint64_t left = index_limit;

		for (uint32_t n = 0; n < count[export_entries]; n++) {
			const uint64_t size = chunk_size(export_entries, n) / sizeof(ExportEntry);

			for (uint64_t i = 0; i < size && left; i += block, left -= block) {
				const int err = read_block(chunk[export_entries][n] +
							   i * sizeof(ExportEntry), ranges);

				if (err)
					return err;
			}
		}
		return 0;
	}

private:
	PeerBytes bytes;
	ExportHeader head;
	uint64_t chunk[2][export_chunks];	// offsets
	uint32_t count[2] = { 0, 0 };

	bool take_chunk(const ExportChunk &c)
	{
		if (c.kind > export_strings || count[c.kind] == export_chunks)
			return false;
		const uint32_t n = count[c.kind]++;
		chunk[c.kind][n] = c.offset;
		return c.size == chunk_size(c.kind, n) && c.first == chunk_first(c.kind, n) &&
		       c.offset >= export_header_size && c.offset + c.size > c.offset;
	}

	// Two copies, one after the other.
	bool copy_twice(uint64_t at, ExportEntry *one, ExportEntry *two, uint32_t entries)
	{
		return !bytes.read(bytes.io, at, one, entries * sizeof(*one)) &&
		       !bytes.read(bytes.io, at, two, entries * sizeof(*two));
	}

	static bool steady(const ExportEntry &one, const ExportEntry &two)
	{
		return !(one.sequence & 1) && !memcmp(&one, &two, sizeof(one));
	}

	// A block that cannot be read is one the file does not have: no more ranges.
	int read_block(uint64_t at, PeerRanges *ranges)
	{
		ExportEntry one[block], two[block];

		if (!copy_twice(at, one, two, block))
			return -EBADMSG;
		for (uint32_t i = 0; i < block; i++) {
			const uint64_t entry_at = at + i * sizeof(ExportEntry);
			int err = steady(one[i], two[i]) ? take_entry(entry_at, one[i], ranges) : -EAGAIN;

			for (int tries = 0; err == -EAGAIN && tries < entry_tries; tries++) {
				if (!copy_twice(entry_at, &one[i], &two[i], 1))
					return -EBADMSG;
				if (steady(one[i], two[i]))
					err = take_entry(entry_at, one[i], ranges);
				else
					sys::call(__NR_sched_yield);
			}
			if (err && err != -EAGAIN)
				return err;
		}
		return 0;
	}

	static bool sound(const ExportEntry &e)
	{
		return e.text_start < e.text_end && e.path_length <= max_path &&
		       e.build_id_size <= sizeof(e.build_id) && e.source < SFRAME_SOURCE_COUNT;
	}

	// -EAGAIN: it changed while its path was read.
	int take_entry(uint64_t at, const ExportEntry &e, PeerRanges *ranges)
	{
		char path[max_path + 1];
		uint64_t sequence;

		if (e.id == 0 || !sound(e))
			return 0;
		const uint32_t length = read_string(e.path, path, e.path_length);
		if (e.path_length && (bytes.read(bytes.io, at, &sequence, sizeof(sequence)) ||
				      sequence != e.sequence))
			return -EAGAIN;
		sframe_range range = {};
		range.size = sizeof(range);
		range.text_start = e.text_start;
		range.text_end = e.text_end;
		range.sframe_start = e.sframe_start;
		range.sframe_size = e.sframe_size;
		range.func_base = e.func_base;
		range.flags = e.flags;
		range.load_bias = e.load_bias;
		range.id = e.id;
		range.source = e.source;
		range.version = e.version;
		range.build_id_size = e.build_id_size;
		memcpy(range.build_id, e.build_id, sizeof(range.build_id));
		return ranges->add(range, path, length);
	}

	// Returns how much there was.
	uint32_t read_string(uint64_t at, char *to, uint32_t length)
	{
		uint32_t done = 0;

		if (at > UINT32_MAX)
			return 0;
		while (done < length) {
			const uint32_t n = chunk_of(export_strings, at + done);
			if (n >= count[export_strings])
				return 0;
			const uint64_t in = at + done - chunk_first(export_strings, n);
			const uint64_t room = chunk_size(export_strings, n) - in;
			const uint32_t part = length - done < room ? length - done : (uint32_t)room;

			if (bytes.read(bytes.io, chunk[export_strings][n] + in, to + done, part))
				return 0;
			done += part;
		}
		return done;
	}
};

} // namespace

int peer_read_segment(const PeerBytes &bytes, PeerSummary *summary, PeerRanges *ranges)
{
	Segment segment(bytes);
	int err = segment.header(summary);

	if (!err && ranges)
		err = segment.entries(ranges);
	if (!err && ranges)
		ranges->settle();
	return err;
}

} // namespace sframe
