// SPDX-License-Identifier: MIT
//
// Readers and signal handlers while writers churn. What never changes must
// always be found; what is found must be whole and belong to the PC. (Also run
// under ThreadSanitizer.)
#include <gtest/gtest.h>

#include <atomic>
#include <signal.h>
#include <sys/time.h>
#include <thread>

#include "registry.h"
#include "section.h"

namespace {

#ifdef UNDER_THREAD_SANITIZER
constexpr int operations = 500;
#else
constexpr int operations = 20'000;
#endif

constexpr uint64_t base = 0x100000, stride = 64, slots = 2000;

// Even positions stay; odd ones come and go. The load bias says which position
// a range belongs to, the path says it again.
struct Churn {
	std::vector<uint8_t> section = make_section(1);
	std::atomic<bool> stop{ false };

	sframe_setup setup(uint64_t i, uint64_t flags = 0) const
	{
		return setup_of(section, base + i * stride, stride / 2, flags);
	}
	int add(uint64_t i, uint64_t flags = 0) const
	{
		const std::string path = "/lib/" + std::to_string(i);
		sframe::Metadata meta;
		meta.executable = true;
		meta.load_bias = i;
		meta.path = path.c_str();
		return sframe::registry_add(setup(i, flags), meta);
	}

	Churn()
	{
		for (uint64_t i = 0; i < slots; i += 2)
			if (add(i))
				abort();
	}
	~Churn() { sframe::registry_remove({ (uint64_t)section.data(), 0, 0, 0, 0, 0 }); }

	// Owns the odd positions that are @id modulo @writers.
	void write(uint64_t id, uint64_t writers) const
	{
		for (int n = 0; n < operations; n++) {
			const uint64_t i = (n * writers + id) * 2 % slots + 1;
			EXPECT_EQ(add(i), 0) << i;
			if (n % 8 == 0) {
				EXPECT_EQ(add(i, SFRAME_REPLACE), 0) << i;
			}
			EXPECT_EQ(sframe::registry_remove(setup(i)), 0) << i;
		}
	}

	// What is wrong with the answer for position @i, or nullptr. Async-signal-safe.
	const char *wrong(uint64_t i) const
	{
		const uint64_t pc = base + i * stride + i % (stride / 2);
		sframe::Covering covering;
		int err = sframe::registry_lookup(pc, &covering);

		if (err && err != -ENOENT)
			return "lookup gave up";
		if (err)
			return i % 2 ? nullptr : "a range that stays was not found";
		if (covering.text_start != base + i * stride ||
		    covering.text_end != base + i * stride + stride / 2)
			return "wrong range";
		if (covering.section.addr != (uint64_t)section.data() || covering.section.version != 3 ||
		    covering.section.num_fdes != 1)
			return "torn section";
		auto range = sized<sframe_range>();
		err = sframe_find(pc, &range);
		if (err)
			return i % 2 && err == -ENOENT ? nullptr : "sframe_find() gave up";
		if (range.load_bias != i)
			return "metadata of another range";
		char path[32] = {};
		err = sframe_range_path(range.id, path, sizeof(path));
		if (err == -ENOENT && i % 2)
			return nullptr;
		return err < 6 || strtoull(path + 5, nullptr, 10) != i ? "path of another range" : nullptr;
	}
};

TEST(ThreadsTest, ReadersAlwaysSeeAWholeIndex)
{
	Churn churn;
	std::vector<std::thread> readers, writers;
	std::atomic<const char *> wrong{ nullptr };
	std::atomic<uint64_t> lookups{ 0 };

	for (uint64_t r = 0; r < 3; r++)
		readers.emplace_back([&, r] {
			for (uint64_t n = r; !churn.stop; n++, lookups++) {
				// Brackets now and then: each makes removals wait.
				const bool bracket = n % 256 == 0;
				const uint32_t token = bracket ? sframe::registry_read_enter() : 0;
				if (const char *what = churn.wrong(n * 7919 % slots))
					wrong = what;
				if (bracket)
					sframe::registry_read_leave(token);
			}
		});
	for (uint64_t w = 0; w < 2; w++)
		writers.emplace_back([&, w] { churn.write(w, 2); });
	for (auto &t : writers)
		t.join();
	churn.stop = true;
	for (auto &t : readers)
		t.join();
	EXPECT_EQ(wrong.load(), nullptr) << wrong.load();
	EXPECT_GT(lookups.load(), 1000u);
}

Churn *in_handler;
std::atomic<const char *> handler_wrong{ nullptr };
std::atomic<uint64_t> handler_runs{ 0 };

void on_profile(int)
{
	static std::atomic<uint64_t> n{ 0 };
	const int saved = errno;

	const uint32_t token = sframe::registry_read_enter();
	for (int i = 0; i < 20; i++)
		if (const char *what = in_handler->wrong(n.fetch_add(7919) % slots))
			handler_wrong = what;
	sframe::registry_read_leave(token);
	handler_runs++;
	errno = saved;
}

// The handler interrupts the writers themselves, at any instruction.
TEST(ThreadsTest, SignalHandlersReadInTheMiddleOfAnUpdate)
{
	Churn churn;
	struct sigaction action = {};
	const itimerval fast = { { 0, 200 }, { 0, 200 } }, off = {};

	in_handler = &churn;
	action.sa_handler = on_profile;
	action.sa_flags = SA_RESTART;
	sigaction(SIGPROF, &action, nullptr);
	setitimer(ITIMER_PROF, &fast, nullptr);
	std::thread writer([&] { churn.write(0, 2); });
	churn.write(1, 2);
	writer.join();
	setitimer(ITIMER_PROF, &off, nullptr);
	signal(SIGPROF, SIG_IGN);
	EXPECT_EQ(handler_wrong.load(), nullptr) << handler_wrong.load();
	EXPECT_GT(handler_runs.load(), 0u);
}

// A removal returns only when the readers that were inside have left.
TEST(ThreadsTest, RemovalWaitsForReaders)
{
	Churn churn;
	std::atomic<bool> inside{ false }, removed{ false }, left{ false };

	std::thread reader([&] {
		const uint32_t token = sframe::registry_read_enter();
		inside = true;
		usleep(20'000);
		EXPECT_FALSE(removed);
		left = true;
		sframe::registry_read_leave(token);
	});
	while (!inside)
		usleep(100);
	EXPECT_EQ(sframe::registry_remove(churn.setup(0)), 0);
	removed = true;
	EXPECT_TRUE(left);
	reader.join();
}

// One that never leaves (stopped by a debugger) delays it, no more.
TEST(ThreadsTest, AStuckReaderDelaysARemovalOnly)
{
	Churn churn;
	const uint32_t token = sframe::registry_read_enter();

	EXPECT_EQ(sframe::registry_remove(churn.setup(0)), 0);
	sframe::registry_read_leave(token);
}

} // namespace
