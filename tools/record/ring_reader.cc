// SPDX-License-Identifier: MIT
#include "ring_reader.h"

#include <algorithm>
#include <boost/interprocess/file_mapping.hpp>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include "profile.h"

namespace sframe::record {

namespace bip = boost::interprocess;

int RingReader::create(const std::string &path, uint32_t slots, std::unique_ptr<RingReader> *out)
{
	const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -errno;
	// Reserved now: a full file system must not become SIGBUS in the program.
	int err = posix_fallocate(fd, 0, static_cast<off_t>(ring_file_size(slots)));
	::close(fd);
	if (!err)
		try {
			bip::file_mapping file(path.c_str(), bip::read_write);
			bip::mapped_region region(file, bip::read_write, 0, ring_file_size(slots));
			out->reset(new RingReader(path, std::move(region), slots));
			return 0;
		} catch (const bip::interprocess_exception &e) {
			err = e.get_native_error() ? e.get_native_error() : EIO;
		}
	unlink(path.c_str());
	return -err;
}

RingReader::RingReader(std::string path, bip::mapped_region &&region, uint32_t slots)
	: path_(std::move(path)), region_(std::move(region)), slots_(slots),
	  copy_(RING_MAX_RECORD_SLOTS * RING_SLOT_SIZE / sizeof(uint64_t))
{
	char *const base = static_cast<char *>(region_.get_address());

	header_ = reinterpret_cast<ring_header *>(base);
	stamps_ = reinterpret_cast<uint64_t *>(base + RING_HEADER_SIZE);
	data_ = reinterpret_cast<const unsigned char *>(base + ring_data_offset(slots));
	header_->magic = RING_MAGIC;
	header_->version = RING_VERSION;
	header_->slots = slots;
}

RingReader::~RingReader()
{
	close();
	unlink(path_.c_str());
}

void RingReader::close() { __atomic_store_n(&header_->closed, 1, __ATOMIC_RELEASE); }

// head, as far as it makes sense: tail_ is ours and right, head anybody's.
uint64_t RingReader::bounded_head()
{
	const uint64_t head = __atomic_load_n(&header_->head, __ATOMIC_RELAXED);

	if (head - tail_ <= slots_)
		return head;
	// A writer gave back slots that we had given up meanwhile (head is a little
	// behind), or somebody scribbled. Begin anew where writers are.
	damaged_++;
	tail_ = head;
	stuck_until_ = head;
	__atomic_store_n(&header_->tail, tail_, __ATOMIC_RELEASE);
	return head;
}

void RingReader::advance(uint64_t slots)
{
	tail_ += slots;
	__atomic_store_n(&header_->tail, tail_, __ATOMIC_RELEASE);
}

// The slot at tail_ is reserved and not whole. True: it is given up.
bool RingReader::give_up(uint64_t head, Clock::time_point now, bool no_writers)
{
	if (no_writers)
		return true;
	if (tail_ >= stuck_until_) {	// the first look at it: everything up to head waits from now
		stuck_until_ = head;
		stuck_since_ = now;
		return false;
	}
	return now - stuck_since_ >= PATIENCE;
}

// Copies the record of @slots slots at tail_; nullptr if it is not a valid one.
const ring_record *RingReader::take(uint32_t slots)
{
	const uint64_t place = tail_ & (slots_ - 1);
	const uint64_t first = std::min<uint64_t>(slots, slots_ - place);
	unsigned char *const to = reinterpret_cast<unsigned char *>(copy_.data());

	memcpy(to, data_ + place * RING_SLOT_SIZE, first * RING_SLOT_SIZE);
	memcpy(to + first * RING_SLOT_SIZE, data_, (slots - first) * RING_SLOT_SIZE);
	const auto *const record = reinterpret_cast<const ring_record *>(to);
	if (record->size > slots * RING_SLOT_SIZE || !record_valid(record, record->size))
		return nullptr;
	return record;
}

const ring_record *RingReader::next(Clock::time_point now, bool no_writers)
{
	const uint64_t head = bounded_head();
	bool giving_up = false;

	while (tail_ != head) {
		const uint64_t stamp = __atomic_load_n(&stamps_[tail_ & (slots_ - 1)], __ATOMIC_ACQUIRE);
		const uint32_t slots = stamp & 0xff;
		const bool whole = (stamp & ~UINT64_C(0xff)) == RING_RESERVED(tail_) && slots &&
				   slots <= RING_MAX_RECORD_SLOTS && slots <= head - tail_;
		if (!whole) {
			if (!give_up(head, now, no_writers))
				return nullptr;
			abandoned_ += !giving_up;	// slots in a row count as one record
			giving_up = true;
			advance(1);
			continue;
		}
		giving_up = false;
		const ring_record *const record = take(slots);
		advance(slots);
		if (record)
			return record;
		damaged_++;
	}
	return nullptr;
}

} // namespace sframe::record
