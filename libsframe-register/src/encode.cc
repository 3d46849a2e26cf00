// SPDX-License-Identifier: MIT
#include "encode.h"

#include <algorithm>
#include <elf.h>
#include "../core/sframe_format.h"
#include "image.h"
#include "padding.h"

namespace sframe {

namespace {

constexpr uint32_t kMaxPadding = 63;

// Functions of fewer rows are not cut: trying gains next to nothing.
constexpr uint32_t kCutRows = 12;

// Costs are in parts of a byte: shared blocks are paid for by all that use them.
constexpr int32_t kByte = 16;
constexpr uint32_t kEntry = SFRAME_FDE_V3_SIZE;
constexpr uint32_t kAttributes = SFRAME_FDE_ATTR_V3_SIZE;

unsigned int address_width(uint64_t offset)
{
	return offset <= UINT8_MAX ? SFRAME_FRE_TYPE_ADDR1 :
		offset <= UINT16_MAX ? SFRAME_FRE_TYPE_ADDR2 : SFRAME_FRE_TYPE_ADDR4;
}

// A block as it stands in the row sub-section: attributes, then rows.
class Block {
public:
	Block(uint8_t kind, unsigned int width, unsigned int pctype, unsigned int rep_size)
		: width_(width)
	{
		bytes_[2] = static_cast<unsigned char>(
			width | pctype << 4 | (kind & Rule::kSignal ? 0x80u : 0));
		bytes_[3] = kind & Rule::kFlexible ? SFRAME_FDE_TYPE_FLEX : SFRAME_FDE_TYPE_DEFAULT;
		bytes_[4] = static_cast<unsigned char>(rep_size);
	}

	// Copies more than it keeps: sizes known to the compiler need no calls.
	void row(uint64_t offset, const Rule &rule)
	{
		memcpy(bytes_ + size_, &offset, 4);
		size_ += 1u << width_;
		memcpy(bytes_ + size_, rule.bytes, 8);
		if (rule.size > 8)
			memcpy(bytes_ + size_ + 8, rule.bytes + 8, sizeof(rule.bytes) - 8);
		size_ += rule.size;
		rows_++;
	}

	static constexpr uint32_t kMaxRows = 32;

	const unsigned char *bytes()
	{
		memcpy(bytes_, &rows_, 2);
		return bytes_;
	}
	uint32_t size() const { return size_; }
	uint16_t rows() const { return rows_; }

private:
	unsigned char bytes_[kAttributes + kMaxRows * (4 + sizeof(Rule::bytes))];
	uint32_t size_ = kAttributes;
	unsigned int width_;
	uint16_t rows_ = 0;
};

} // namespace

Encoder::Encoder(const sframe_image &image, const RowStore &store, Meter &meter,
		 sframe_synth_stats &stats, const EncodeOptions &options)
	: image_(image), store_(store), stats_(stats), options_(options), index_(meter),
	  heap_(meter), blocks_(meter), nodes_(meter), window_(meter), path_(meter)
{
}

void Encoder::prefetch(const Function &function) const
{
	const RowList &list = store_.list(function.list);
	const sframe_image_segment *seg = image_segment(image_, function.start, 1);

	__builtin_prefetch(store_.rows(list));
	if (seg && seg->bytes)
		__builtin_prefetch(seg->bytes + (function.start - seg->vaddr) - 1);
}

// Text between functions that is only there to align the next one.
bool Encoder::gap_is_padding(uint64_t start, uint64_t end) const
{
	if (start == end)
		return true;
	if (end - start > kMaxPadding)
		return false;
	const sframe_image_segment *seg = image_segment(image_, start, end - start);

	return seg && seg->bytes && seg->flags & PF_X &&
		is_padding(seg->bytes + (start - seg->vaddr), end - start);
}

bool Encoder::add(const Function &function)
{
	const RowList &list = store_.list(function.list);
	const Row *rows = store_.rows(list);

	for (uint32_t i = 0; i < list.count && rows[i].start < function.size; i++) {
		const bool last = i + 1 == list.count || rows[i + 1].start >= function.size;
		const uint32_t end = last ? function.size : rows[i + 1].start;

		if (is_hole(rows[i].rule)) {
			stats_.uncovered[rows[i].rule]++;
			stats_.uncovered_bytes[rows[i].rule] += end - rows[i].start;
			if (!flush())
				return false;
			continue;
		}
		stats_.covered_bytes += end - rows[i].start;
		if (!add_row(function, rows[i], function.start + end, i == 0))
			return false;
	}
	return true;
}

bool Encoder::add_row(const Function &function, const Row &row, uint64_t end, bool first)
{
	const RowList &list = store_.list(function.list);
	const Rule &rule = store_.rules()[row.rule];
	const uint64_t start = function.start + row.start;

	if (rule.kind & Rule::kPlt)
		return flush() && add_plt(start, end, rule);
	if (!nodes_.empty()) {
		const Rule &last = store_.rules()[nodes_.back().rule];

		// A window ends where a function does, if it can.
		const uint32_t coming = first ? std::min(list.count, kWindow) : 1;

		if (last.entry_kind() != rule.entry_kind() || nodes_.size() + coming > kWindow ||
		    (first && (!options_.pack || !gap_is_padding(end_, start))))
			if (!flush())
				return false;
	}
	const Node node = {
		.start = start,
		.previous_end = nodes_.empty() ? start : end_,
		.rule = row.rule,
		.list = function.list,
		.whole_rows = static_cast<uint16_t>(
			first && list.block_size && list.uses > 1 &&
			list.count <= options_.max_rows && list.last_start < function.size ?
			list.count : 0),
		.size = rule.size,
		.redundant = !nodes_.empty() && nodes_.back().rule == row.rule,
		.first = first,
		.cuttable = first || nodes_.empty() || list.count >= kCutRows,
	};

	end_ = end;
	return nodes_.push(node);
}

// A block of the PLT repeats; its boundary is that of the address, not of the
// function, so what stands before the first boundary is written out.
bool Encoder::add_plt(uint64_t start, uint64_t end, const Rule &rule)
{
	const uint64_t block = uint64_t(rule.mask) + 1;

	while (start < end && start % block) {
		const bool low = start % block < rule.threshold;
		uint64_t next = start - start % block + (low ? rule.threshold : block);

		next = std::min(next, end);
		if (!emit_row(start, next, store_.rules()[low ? rule.low : rule.high]))
			return false;
		start = next;
	}
	if (start == end)
		return true;
	Block rows(rule.entry_kind(), SFRAME_FRE_TYPE_ADDR1, SFRAME_FDE_PCTYPE_MASK,
		   static_cast<unsigned int>(block));

	rows.row(0, store_.rules()[rule.low]);
	rows.row(rule.threshold, store_.rules()[rule.high]);
	stats_.mask_entries++;
	stats_.flex_entries += rule.kind & Rule::kFlexible ? 1 : 0;
	return emit_block(start, end, rows.bytes(), rows.size(), rows.rows());
}

// An entry of one row.
bool Encoder::emit_row(uint64_t start, uint64_t end, const Rule &rule)
{
	Block block(rule.entry_kind(), SFRAME_FRE_TYPE_ADDR1, SFRAME_FDE_PCTYPE_INC, 0);

	block.row(0, rule);
	stats_.flex_entries += rule.kind & Rule::kFlexible ? 1 : 0;
	return emit_block(start, end, block.bytes(), block.size(), block.rows());
}

// Sums up the window's rows.
void Encoder::prepare()
{
	Window &w = window_[0];
	const uint32_t n = static_cast<uint32_t>(nodes_.size());
	int32_t rows = 0, bytes = 0;
	uint64_t last = 0;

	for (uint32_t i = 0; i <= n; i++) {
		w.cost[i] = INT32_MAX;
		w.rows[i] = rows;
		w.bytes[i] = bytes;
		w.last[i] = last;
		if (i < n && !nodes_[i].redundant) {
			rows++;
			bytes += nodes_[i].size * kByte;
			last = nodes_[i].start - nodes_[0].start;
		}
	}
	w.cost[0] = 0;
	for (Candidates &c : w.candidates)
		c.head = c.tail = 0;
}

// An entry may begin here. Those before it that cost more will never be chosen:
// they go out of reach earlier.
void Encoder::add_candidate(uint32_t from, unsigned int width)
{
	Window &w = window_[0];
	Candidates &c = w.candidates[width];
	const int32_t address = kByte << width;
	const int32_t cost = w.cost[from] + (int32_t(kEntry + kAttributes) + nodes_[from].size) * kByte +
		address - w.bytes[from + 1] - w.rows[from + 1] * address;

	while (c.tail > c.head && c.cost[c.tail - 1] >= cost)
		c.tail--;
	c.node[c.tail] = from;
	c.cost[c.tail++] = cost;
}

// The cheapest entry that ends in front of a node and has addresses of one width.
void Encoder::best_end(uint32_t to, unsigned int width)
{
	static constexpr uint64_t reach[3] = {UINT8_MAX, UINT16_MAX, UINT32_MAX};
	Window &w = window_[0];
	Candidates &c = w.candidates[width];
	const int32_t rows = w.rows[to] + 1 - static_cast<int32_t>(options_.max_rows);
	const uint64_t last = nodes_[0].start + w.last[to];

	while (c.head < c.tail && (w.rows[c.node[c.head] + 1] < rows ||
				   last > nodes_[c.node[c.head]].start + reach[width]))
		c.head++;
	if (c.head == c.tail)
		return;
	const int32_t cost = c.cost[c.head] + w.bytes[to] + w.rows[to] * (kByte << width);

	if (cost < w.cost[to]) {
		w.cost[to] = cost;
		w.from[to] = c.node[c.head];
	}
}

// Tries a whole function as an entry of its own, whose block it shares with
// all the others that have the same rows.
void Encoder::try_shared(uint32_t from)
{
	Window &w = window_[0];
	const Node &node = nodes_[from];
	const uint32_t to = from + node.whole_rows;

	if (!node.whole_rows || to > nodes_.size())
		return;
	const RowList &list = store_.list(node.list);
	const int32_t cost = w.cost[from] + int32_t(kEntry) * kByte +
		static_cast<int32_t>((list.block_size * uint32_t(kByte) + list.uses - 1) / list.uses);

	if (cost < w.cost[to]) {
		w.cost[to] = cost;
		w.from[to] = from;
	}
}

// The cheapest way to cut the window into entries, in linear time: the entries
// that may end at a node begin in a range that only moves forward.
void Encoder::cut()
{
	const uint32_t n = static_cast<uint32_t>(nodes_.size());
	// No entry needs wider addresses than the window's length.
	const unsigned int widest = address_width(nodes_[n - 1].start - nodes_[0].start);

	prepare();
	for (uint32_t from = 0, to; from < n; from = to) {
		for (to = from + 1; to < n && !nodes_[to].cuttable;)
			to++;
		try_shared(from);
		for (unsigned int width = 0; width <= widest; width++) {
			add_candidate(from, width);
			best_end(to, width);
		}
	}
}

bool Encoder::flush()
{
	const uint32_t n = static_cast<uint32_t>(nodes_.size());

	if (!n)
		return true;
	if (window_.empty() && !window_.resize(1))
		return false;
	cut();
	path_.truncate(0);
	for (uint32_t to = n; to; to = window_[0].from[to])
		if (!path_.push(to))
			return false;
	for (uint32_t from = 0, i = static_cast<uint32_t>(path_.size()); i-- > 0;) {
		if (!emit(from, path_[i]))
			return false;
		from = path_[i];
	}
	nodes_.truncate(0);
	return true;
}

// Writes the entry of the nodes [from, to).
bool Encoder::emit(uint32_t from, uint32_t to)
{
	const Node &head = nodes_[from];
	const uint32_t n = static_cast<uint32_t>(nodes_.size());
	const Rule &first = store_.rules()[head.rule];
	const uint64_t end = to == n ? end_ : nodes_[to].first ? nodes_[to].previous_end :
								nodes_[to].start;
	uint64_t last = head.start;

	for (uint32_t i = from + 1; i < to; i++) {
		if (!nodes_[i].redundant)
			last = nodes_[i].start;
		if (nodes_[i].first)
			stats_.padding_bytes += nodes_[i].start - nodes_[i].previous_end;
	}
	Block block(first.entry_kind(), address_width(last - head.start), SFRAME_FDE_PCTYPE_INC, 0);

	for (uint32_t i = from; i < to; i++)
		if (i == from || !nodes_[i].redundant)
			block.row(nodes_[i].start - head.start, store_.rules()[nodes_[i].rule]);
	stats_.flex_entries += first.kind & Rule::kFlexible ? 1 : 0;
	return emit_block(head.start, end, block.bytes(), block.size(), block.rows());
}

bool Encoder::emit_block(uint64_t start, uint64_t end, const unsigned char *block, uint32_t size,
			 uint32_t rows)
{
	const uint64_t hash = hash_bytes(block, size);
	// Blocks begin with how many rows they have: an equal prefix is an equal block.
	const int64_t found = blocks_.find(hash, [&](uint32_t at) {
		return size <= heap_.size() - at && !memcmp(&heap_[at], block, size);
	});
	uint32_t at = static_cast<uint32_t>(found);

	if (found < 0) {
		if (heap_.size() + size > INT32_MAX)
			return false;
		at = static_cast<uint32_t>(heap_.size());
		if (!heap_.append(block, size) || !blocks_.insert(hash, at))
			return false;
		stats_.rows += rows;
	}
	stats_.entries++;
	return index_.push({static_cast<int64_t>(start), static_cast<uint32_t>(end - start), at});
}

bool Encoder::finish()
{
	if (!flush())
		return false;
	nodes_.release();
	window_.release();
	path_.release();
	blocks_.release();
	return true;
}

uint64_t Encoder::section_size() const
{
	return SFRAME_HEADER_SIZE + index_.size() * sizeof(IndexEntry) + heap_.size();
}

void Encoder::write(unsigned char *out) const
{
	const uint32_t index_size = static_cast<uint32_t>(index_.size() * sizeof(IndexEntry));
	const sframe_header header = {
		.magic = SFRAME_MAGIC,
		.version = SFRAME_VERSION_3,
		.flags = SFRAME_F_FDE_SORTED,
		.abi_arch = SFRAME_ABI_AMD64_ENDIAN_LITTLE,
		.cfa_fixed_fp_offset = 0,
		.cfa_fixed_ra_offset = -8,
		.auxhdr_len = 0,
		.num_fdes = static_cast<uint32_t>(index_.size()),
		.num_fres = stats_.rows,
		.fre_len = static_cast<uint32_t>(heap_.size()),
		.fdeoff = 0,
		.freoff = index_size,
	};

	static_assert(sizeof(IndexEntry) == SFRAME_FDE_V3_SIZE);
	memcpy(out, &header, sizeof(header));
	if (index_size)
		memcpy(out + sizeof(header), index_.data(), index_size);
	if (!heap_.empty())
		memcpy(out + sizeof(header) + index_size, heap_.data(), heap_.size());
}

} // namespace sframe
