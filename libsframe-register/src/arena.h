// SPDX-License-Identifier: MIT
//
// Growable arrays in anonymous mappings. Synthesis runs in namespaces without
// malloc; mappings grow in place or move without copying, and what is left of
// a failed run goes with the objects that own it.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <linux/mman.h>
#include "sys.h"

namespace sframe {

inline constexpr size_t kPage = 4096;

inline size_t page_up(size_t n) { return (n + kPage - 1) & ~(kPage - 1); }

// Bytes mapped by the arrays of one run, and the most there ever were. Past
// the limit arrays fail to grow: hostile input ends in -ENOMEM, not in swap.
struct Meter {
	size_t now = 0;
	size_t peak = 0;
	size_t limit = ~size_t(0);

	bool add(size_t bytes)
	{
		if (bytes > limit - now)
			return false;
		now += bytes;
		if (now > peak)
			peak = now;
		return true;
	}
	void sub(size_t bytes) { now -= bytes; }
};

template <typename T> class Array {
	static_assert(std::is_trivially_copyable_v<T>);

public:
	explicit Array(Meter &meter) : meter_(&meter) {}
	Array(const Array &) = delete;
	Array &operator=(const Array &) = delete;
	~Array() { release(); }

	T *data() { return data_; }
	const T *data() const { return data_; }
	size_t size() const { return size_; }
	bool empty() const { return size_ == 0; }
	T &operator[](size_t i) { return data_[i]; }
	const T &operator[](size_t i) const { return data_[i]; }
	T &back() { return data_[size_ - 1]; }
	T *begin() { return data_; }
	T *end() { return data_ + size_; }
	const T *begin() const { return data_; }
	const T *end() const { return data_ + size_; }
	Meter *meter() { return meter_; }

	[[nodiscard]] bool push(const T &value)
	{
		if (size_ == capacity_ && !grow(size_ + 1))
			return false;
		data_[size_++] = value;
		return true;
	}

	[[nodiscard]] bool append(const T *values, size_t n)
	{
		if (n > capacity_ - size_ && !grow(size_ + n))
			return false;
		if (n)
			memcpy(data_ + size_, values, n * sizeof(T));
		size_ += n;
		return true;
	}

	// New elements are zero: mappings are, and shrinking is only by truncate().
	[[nodiscard]] bool resize(size_t n)
	{
		if (n > capacity_ && !grow(n))
			return false;
		if (n > size_)
			memset(static_cast<void *>(data_ + size_), 0, (n - size_) * sizeof(T));
		size_ = n;
		return true;
	}

	[[nodiscard]] bool reserve(size_t n) { return n <= capacity_ || map(n); }
	void truncate(size_t n) { size_ = n; }

	void swap(Array &other)
	{
		std::swap(data_, other.data_);
		std::swap(size_, other.size_);
		std::swap(capacity_, other.capacity_);
		std::swap(bytes_, other.bytes_);
		std::swap(meter_, other.meter_);
	}

	void release()
	{
		if (data_) {
			sys::call(__NR_munmap, sys::arg(data_), sys::arg(bytes_));
			meter_->sub(bytes_);
		}
		data_ = nullptr;
		size_ = capacity_ = bytes_ = 0;
	}

private:
	// By a quarter: memory stays in proportion to use, and mappings move
	// without copying.
	bool grow(size_t need)
	{
		const size_t want = capacity_ + (bytes_ < 4 * kPage ? capacity_ : capacity_ / 4);

		return map(want > need ? want : need);
	}

	bool map(size_t count)
	{
		if (count > (~size_t(0) - kPage) / sizeof(T))
			return false;
		const size_t bytes = page_up(count * sizeof(T));
		long at;

		if (!meter_->add(bytes - bytes_))
			return false;
		if (data_)
			at = sys::call(__NR_mremap, sys::arg(data_), sys::arg(bytes_),
				       sys::arg(bytes), MREMAP_MAYMOVE);
		else
			at = sys::call(__NR_mmap, 0, sys::arg(bytes), PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1);
		if (sys::failed(at)) {
			meter_->sub(bytes - bytes_);
			return false;
		}
		data_ = reinterpret_cast<T *>(at);
		bytes_ = bytes;
		capacity_ = bytes / sizeof(T);
		return true;
	}

	T *data_ = nullptr;
	size_t size_ = 0;
	size_t capacity_ = 0;
	size_t bytes_ = 0;
	Meter *meter_;
};

// Numbers of things by hash: open addressing over indexes that the owner
// compares. It may forget: probes are bounded, so that colliding input costs
// sharing and not time. Users must not need an answer to be right.
class IndexTable {
public:
	explicit IndexTable(Meter &meter) : slots_(meter) {}

	// Calls same(index) for candidates; the index that is the same, or -1.
	template <typename Same> int64_t find(uint64_t hash, Same same) const
	{
		if (slots_.empty())
			return -1;
		const size_t mask = slots_.size() - 1;

		for (size_t i = hash & mask, n = 0; n < kProbes; i = (i + 1) & mask, n++) {
			if (!slots_[i].index)
				break;
			if (slots_[i].tag == tag(hash) && same(slots_[i].index - 1))
				return slots_[i].index - 1;
		}
		return -1;
	}

	[[nodiscard]] bool insert(uint64_t hash, uint32_t index)
	{
		if ((used_ + 1) * 4 > slots_.size() * 3 && !rehash())
			return false;
		place(slots_, Slot{index + 1, tag(hash)});
		used_++;
		return true;
	}

	void release() { slots_.release(); }

private:
	static constexpr size_t kProbes = 64;

	// The tag is the low half of the hash, so that growing needs no keys.
	struct Slot {
		uint32_t index;
		uint32_t tag;
	};

	static uint32_t tag(uint64_t hash) { return static_cast<uint32_t>(hash); }

	static void place(Array<Slot> &slots, const Slot &slot)
	{
		const size_t mask = slots.size() - 1;

		for (size_t i = slot.tag & mask, n = 0; n < kProbes; i = (i + 1) & mask, n++)
			if (!slots[i].index) {
				slots[i] = slot;
				return;
			}
	}

	bool rehash()
	{
		Array<Slot> bigger(*slots_.meter());

		if (!bigger.resize(slots_.empty() ? 512 : slots_.size() * 2))
			return false;
		for (const Slot &slot : slots_)
			if (slot.index)
				place(bigger, slot);
		slots_.swap(bigger);
		return true;
	}

	Array<Slot> slots_;
	size_t used_ = 0;
};

// Not for secrets: hostile collisions cost time within one run's own input.
inline uint64_t hash_bytes(const void *bytes, size_t size, uint64_t seed = 0)
{
	const unsigned char *p = static_cast<const unsigned char *>(bytes);
	uint64_t h = seed ^ (size * 0x9e3779b97f4a7c15u);

	for (; size >= 8; size -= 8, p += 8) {
		uint64_t v;

		memcpy(&v, p, 8);
		h = (h ^ v) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	uint64_t v = 0;
	memcpy(&v, p, size);
	h = (h ^ v) * 0xc4ceb9fe1a85ec53u;
	return h ^ h >> 29;
}

} // namespace sframe
