// SPDX-License-Identifier: MIT
//
// The index itself, read out of another process's memory: of a forked child,
// which has no segment before it registers something, and where there is no
// shared memory. Same rules as in the process: a node counts if it still names
// itself as its parent did, else all starts over; and nothing is trusted.
#include "peer.h"
#include "registry_state.h"
#include "sys.h"

#include <cstring>

namespace sframe {

namespace {

constexpr int max_rounds = 32;

class Index {
public:
	explicit Index(const PeerBytes &source) : bytes(source) {}

	int control(uint64_t at, PeerSummary *summary)
	{
		if (read(at, &c, sizeof(c)) || c.magic != registry_magic ||
		    c.layout != layout_version || c.size != sizeof(c) || c.state != control_live)
			return -EBADMSG;
		summary->backend = c.backend;
		memset(&summary->stats, 0, sizeof(summary->stats));
		summary->stats.size = sizeof(summary->stats);
		memcpy(&summary->stats.registered, c.stats, sizeof(c.stats));
		return 0;
	}

	int ranges(PeerRanges *out)
	{
		nodes_left = index_limit;
		return c.root ? subtree(c.root, out, 0) : 0;
	}

private:
	PeerBytes bytes;
	Control c;
	uint32_t nodes_left = 0;

	int read(uint64_t at, void *to, size_t size) { return bytes.read(bytes.io, at, to, size); }

	// Does the word at @at still hold @name?
	bool still(uint64_t at, uint64_t name)
	{
		uint64_t now;

		return !read(at, &now, sizeof(now)) && now == name;
	}

	int subtree(uint64_t ref, PeerRanges *out, uint32_t depth)
	{
		const uint64_t at = c.nodes + (uint64_t)index_of(ref) * sizeof(Node);
		Node node;

		if (depth >= max_height || nodes_left-- == 0 || read(at, &node, sizeof(node)))
			return -EBADMSG;
		if (node.self != ref || !still(at, ref))
			return -EAGAIN;
		if (node_count(node.info) > fan_out)
			return -EBADMSG;
		int err = 0;
		for (uint32_t i = 0; !err && i < node_count(node.info); i++)
			err = node_level(node.info) ? subtree(node.child[i], out, depth + 1) :
				range(node.child[i], out);
		return err;
	}

	int range(uint64_t id, PeerRanges *out)
	{
		const uint64_t at = c.slots + (uint64_t)index_of(id) * sizeof(Slot);
		char path[max_path + 1];
		size_t length = 0;
		Slot slot;

		if (read(at, &slot, sizeof(slot)))
			return -EBADMSG;
		if (slot.id == id && slot.record)
			length = read_path(slot.record, path);
		if (slot.id != id || !still(at, id))
			return -EAGAIN;
		if (slot.text_start >= slot.text_end || slot.build_id_size > sizeof(slot.build_id) ||
		    slot.source >= SFRAME_SOURCE_COUNT)
			return -EBADMSG;
		sframe_range r = {};
		r.size = sizeof(r);
		r.text_start = slot.text_start;
		r.text_end = slot.text_end;
		r.sframe_start = slot.section.addr;
		r.sframe_size = slot.sframe_size;
		r.func_base = slot.flags & SFRAME_FUNC_BASE ? slot.section.base : 0;
		r.flags = slot.flags;
		r.load_bias = slot.load_bias;
		r.id = slot.id;
		r.source = slot.source;
		r.version = slot.section.version;
		r.build_id_size = slot.build_id_size;
		memcpy(r.build_id, slot.build_id, sizeof(r.build_id));
		return out->add(r, path, length);
	}

	size_t read_path(uint32_t record, char *path)
	{
		const uint64_t at = c.records + (uint64_t)record * record_unit;
		Record head;

		if (read(at, &head, sizeof(head)) || head.length > max_path ||
		    read(at + sizeof(head), path, head.length))
			return 0;
		return head.length;
	}
};

} // namespace

int peer_read_index(const PeerBytes &bytes, uint64_t control, PeerSummary *summary,
		    PeerRanges *ranges)
{
	for (int round = 0; round < max_rounds; round++) {
		Index index(bytes);
		int err = index.control(control, summary);

		if (err || !ranges)
			return err;
		ranges->count = ranges->text_size = 0;
		err = index.ranges(ranges);
		if (err != -EAGAIN) {
			if (!err)
				ranges->settle();
			return err;
		}
		sys::call(__NR_sched_yield);
	}
	return -EBUSY;
}

} // namespace sframe
