// SPDX-License-Identifier: MIT
//
// The sample ring: what goes in comes out, once and whole, whatever writers do.
#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include "record/profile.h"
#include "record/ring_reader.h"
#include "record/ring_writer.h"

using namespace sframe::record;

namespace {

constexpr uint32_t SLOTS = RING_MIN_SLOTS;

class Ring : public testing::Test {
protected:
	void SetUp() override
	{
		path_ = "/tmp/sframe-ring-test." + std::to_string(getpid());
		unlink(path_.c_str());
		ASSERT_EQ(RingReader::create(path_, SLOTS, &reader_), 0);
		map();
	}

	// As the sampler maps it: data twice in a row.
	void map()
	{
		const int fd = open(path_.c_str(), O_RDWR);
		const size_t head = ring_data_offset(SLOTS), data = size_t{ SLOTS } * RING_SLOT_SIZE;
		char *base = static_cast<char *>(mmap(nullptr, head + 2 * data, PROT_NONE,
						      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		ASSERT_NE(base, MAP_FAILED);
		ASSERT_NE(mmap(base, head + data, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0), MAP_FAILED);
		ASSERT_NE(mmap(base + head + data, data, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, head),
			  MAP_FAILED);
		close(fd);
		writer_ = { reinterpret_cast<ring_header *>(base),
			    reinterpret_cast<uint64_t *>(base + RING_HEADER_SIZE),
			    reinterpret_cast<unsigned char *>(base + head), SLOTS };
	}

	// A sample of @count frames that names its writer and number.
	static bool put(const RingWriter &ring, uint32_t writer, uint64_t number, uint32_t count,
			uint32_t reserve = RING_MAX_FRAMES)
	{
		const Reservation r = ring_reserve(ring, sizeof(ring_sample) + reserve * 16);
		if (!r.record)
			return false;
		ring_sample *s = reinterpret_cast<ring_sample *>(r.record);
		memset(s, 0, sizeof(*s));
		s->tid = writer;
		s->time_ns = number;
		s->count = static_cast<uint16_t>(count);
		uint64_t *words = reinterpret_cast<uint64_t *>(s + 1);
		for (uint32_t i = 0; i < 2 * count; i++)
			words[i] = number * 1000 + i;
		return ring_commit(ring, r, RING_SAMPLE, 1, sizeof(ring_sample) + count * 16);
	}

	static void expect_whole(const ring_record *record)
	{
		const ring_sample *s = reinterpret_cast<const ring_sample *>(record);
		const uint64_t *words = reinterpret_cast<const uint64_t *>(s + 1);
		ASSERT_EQ(record->kind, RING_SAMPLE);
		for (uint32_t i = 0; i < 2u * s->count; i++)
			ASSERT_EQ(words[i], s->time_ns * 1000 + i);
	}

	const ring_record *next(bool no_writers = false)
	{
		return reader_->next(RingReader::Clock::now(), no_writers);
	}

	std::string path_;
	std::unique_ptr<RingReader> reader_;
	RingWriter writer_;
};

TEST_F(Ring, KeepsOrderAcrossManyLaps)
{
	std::mt19937 random(1);
	for (uint64_t i = 0; i < 20000; i++) {
		ASSERT_TRUE(put(writer_, 7, i, random() % 100));
		if (i % 3)
			continue;
		while (const ring_record *r = next())
			expect_whole(r);
	}
	while (const ring_record *r = next())
		expect_whole(r);
	EXPECT_EQ(reader_->damaged(), 0u);
	EXPECT_EQ(reader_->abandoned(), 0u);
}

TEST_F(Ring, UnneededSlotsAreGivenBack)
{
	// 512 slots: seven reservations of 65 fit, but hundreds of short records.
	uint32_t n = 0;
	while (put(writer_, 1, n, 3))
		n++;
	EXPECT_GE(n, SLOTS - RING_MAX_RECORD_SLOTS);
}

TEST_F(Ring, FullRefusesAndRecovers)
{
	uint64_t written = 0;
	while (put(writer_, 1, written, RING_MAX_FRAMES))
		written++;
	EXPECT_EQ(written, SLOTS / RING_MAX_RECORD_SLOTS);
	uint64_t read = 0;
	while (const ring_record *r = next()) {
		expect_whole(r);
		read++;
	}
	EXPECT_EQ(read, written);
	EXPECT_TRUE(put(writer_, 1, written, RING_MAX_FRAMES));
}

TEST_F(Ring, WritersInThreadsLoseNothingThatWasAccepted)
{
	constexpr int WRITERS = 4;
	constexpr uint64_t EACH = 20000;
	std::atomic<uint64_t> accepted{ 0 };
	std::atomic<int> running{ WRITERS };
	std::vector<std::thread> threads;
	for (int w = 0; w < WRITERS; w++)
		threads.emplace_back([&, w] {
			for (uint64_t i = 0; i < EACH; i++)
				accepted += put(writer_, w, i, i % 40, 64);
			running--;
		});
	std::map<uint32_t, uint64_t> last;
	uint64_t read = 0;
	for (bool more = true; more;) {
		more = running > 0;
		while (const ring_record *r = next()) {
			expect_whole(r);
			const ring_sample *s = reinterpret_cast<const ring_sample *>(r);
			EXPECT_GE(s->time_ns, last[s->tid]);	// each writer's in order
			last[s->tid] = s->time_ns;
			read++;
		}
	}
	for (std::thread &t : threads)
		t.join();
	while (next())
		read++;
	EXPECT_EQ(read, accepted);
	EXPECT_EQ(reader_->damaged(), 0u);
}

TEST_F(Ring, DeadWritersReservationIsAbandoned)
{
	ASSERT_TRUE(put(writer_, 1, 1, 5));
	ring_reserve(writer_, 5000);	// and never committed
	ASSERT_TRUE(put(writer_, 1, 2, 5));
	ASSERT_NE(next(), nullptr);
	EXPECT_EQ(next(), nullptr);	// may still become whole
	const ring_record *r = next(true);
	ASSERT_NE(r, nullptr);
	expect_whole(r);
	EXPECT_EQ(reinterpret_cast<const ring_sample *>(r)->time_ns, 2u);
	EXPECT_EQ(reader_->abandoned(), 1u);
}

TEST_F(Ring, PatienceEnds)
{
	ring_reserve(writer_, 5000);
	ASSERT_TRUE(put(writer_, 1, 2, 5));
	const auto now = RingReader::Clock::now();
	EXPECT_EQ(reader_->next(now), nullptr);
	EXPECT_EQ(reader_->next(now + RingReader::PATIENCE / 2), nullptr);
	EXPECT_NE(reader_->next(now + RingReader::PATIENCE), nullptr);
}

TEST_F(Ring, LateWriterIsToldAndHarmsNobody)
{
	const Reservation late = ring_reserve(writer_, 2000);
	const auto now = RingReader::Clock::now();
	EXPECT_EQ(reader_->next(now), nullptr);
	EXPECT_EQ(reader_->next(now + RingReader::PATIENCE), nullptr);
	// Others use the slots again, laps later.
	for (uint64_t i = 0; i < 4 * SLOTS - 100; i++) {
		ASSERT_TRUE(put(writer_, 1, i, 3));
		if (const ring_record *r = next())
			expect_whole(r);
	}
	for (uint64_t i = 0; i < SLOTS / 2; i++)
		put(writer_, 1, i, 3);
	memset(static_cast<void *>(late.record), 0xee, 2000);	// scribbles over them
	EXPECT_FALSE(ring_commit(writer_, late, RING_SAMPLE, 1, 2000));
	while (const ring_record *r = next(true))
		expect_whole(r);
	EXPECT_GE(reader_->damaged(), 1u);
}

TEST_F(Ring, WriterKilledAnywhereNeverHangsTheReader)
{
	std::mt19937 random(2);
	for (int round = 0; round < 40; round++) {
		const pid_t pid = fork();
		if (pid == 0)
			for (uint64_t i = 0;; i++)
				put(writer_, 1, i, i % 200);
		const useconds_t life = 500 + random() % 5000;
		const auto end = RingReader::Clock::now() + std::chrono::microseconds(life);
		while (RingReader::Clock::now() < end)
			if (const ring_record *r = next())
				expect_whole(r);
		kill(pid, SIGKILL);
		waitpid(pid, nullptr, 0);
		while (const ring_record *r = next(true))
			expect_whole(r);
		// And the next writer finds a ring that works.
		ASSERT_TRUE(put(writer_, 2, 1, 10));
		const ring_record *r = next(true);
		ASSERT_NE(r, nullptr);
		EXPECT_EQ(reinterpret_cast<const ring_sample *>(r)->tid, 2u);
	}
}

TEST_F(Ring, HostileMemoryNeitherHangsNorEscapes)
{
	std::mt19937_64 random(3);
	unsigned char *const all = reinterpret_cast<unsigned char *>(writer_.header);
	for (int round = 0; round < 300; round++) {
		for (int i = 0; i < 20; i++)
			put(writer_, 1, i, random() % 50);
		for (int i = 0; i < 200; i++)
			all[random() % ring_file_size(SLOTS)] = static_cast<unsigned char>(random());
		if (round % 4 == 0)
			__atomic_store_n(&writer_.header->head, random(), __ATOMIC_RELAXED);
		if (round % 5 == 0)
			writer_.header->slots = 0;
		int n = 0;
		while (const ring_record *r = next(round & 1)) {
			ASSERT_TRUE(record_valid(r, r->size));
			ASSERT_LT(++n, 100000);
		}
	}
}

TEST(RingFile, NoRoomIsAnErrorAndLeavesNothing)
{
	std::unique_ptr<RingReader> reader;
	EXPECT_EQ(RingReader::create("/no/such/directory/ring", SLOTS, &reader), -ENOENT);
	EXPECT_EQ(reader, nullptr);
}

} // namespace
