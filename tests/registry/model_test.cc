// SPDX-License-Identifier: MIT
//
// The index against std::map: the same operations, the same answers.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "registry.h"
#include "registry_state.h"
#include "section.h"

namespace {

constexpr uint64_t base = 0x10000;
constexpr int section_count = 300;

struct Entry {
	uint64_t end;
	int section;
	uint64_t tag;		// the load bias: tells a replacement
};

class Model {
public:
	explicit Model(uint32_t seed) : random(seed)
	{
		for (int i = 0; i < section_count; i++)
			sections.push_back(make_section(1));
		meta.executable = true;
	}
	~Model()
	{
		for (const auto &section : sections)
			sframe::registry_remove({ (uint64_t)section.data(), 0, 0, 0, 0, 0 });
	}

	uint64_t below(uint64_t n) { return random() % n; }

	std::map<uint64_t, Entry>::iterator overlapping(uint64_t start, uint64_t end)
	{
		auto it = entries.upper_bound(start);
		if (it != entries.begin() && std::prev(it)->second.end > start)
			return std::prev(it);
		return it != entries.end() && it->first < end ? it : entries.end();
	}

	int add(uint64_t start, uint64_t size, int section, uint64_t flags = 0)
	{
		meta.load_bias = ++tag;
		meta.path = path_of(tag);
		return sframe::registry_add(setup_of(sections[section], start, size, flags), meta);
	}

	void try_add()
	{
		const uint64_t start = base + below(40000) * 16, size = 1 + below(64);
		const int section = (int)below(section_count);
		const bool overlap = overlapping(start, start + size) != entries.end();

		ASSERT_EQ(add(start, size, section), overlap ? -EEXIST : 0);
		if (!overlap)
			entries[start] = { start + size, section, tag };
	}

	std::map<uint64_t, Entry>::iterator any()
	{
		auto it = entries.lower_bound(base + below(40000) * 16);
		return it == entries.end() ? entries.begin() : it;
	}

	void try_replace()
	{
		if (entries.empty())
			return;
		auto it = any();
		const int section = (int)below(section_count);
		ASSERT_EQ(add(it->first, it->second.end - it->first, section, SFRAME_REPLACE), 0);
		it->second = { it->second.end, section, tag };
	}

	void try_remove()
	{
		if (entries.empty())
			return;
		auto it = any();
		ASSERT_EQ(sframe::registry_remove(setup_of(sections[it->second.section], it->first,
							   it->second.end - it->first)), 0);
		entries.erase(it);
	}

	void try_remove_section()
	{
		const int section = (int)below(section_count);
		size_t n = 0;

		for (auto it = entries.begin(); it != entries.end();)
			if (it->second.section == section) {
				it = entries.erase(it);
				n++;
			} else {
				++it;
			}
		ASSERT_EQ(sframe::registry_remove({ (uint64_t)sections[section].data(), 0, 0, 0, 0, 0 }),
			  n ? 0 : -ENOENT);
	}

	void check(uint64_t pc)
	{
		const auto it = overlapping(pc, pc + 1);
		auto range = sized<sframe_range>();
		char path[64];

		ASSERT_EQ(sframe_find(pc, &range), it == entries.end() ? -ENOENT : 0) << pc;
		if (it == entries.end())
			return;
		ASSERT_EQ(range.text_start, it->first);
		ASSERT_EQ(range.text_end, it->second.end);
		ASSERT_EQ(range.load_bias, it->second.tag);
		ASSERT_EQ(range.sframe_start, (uint64_t)sections[it->second.section].data());
		ASSERT_GE(sframe_range_path(range.id, path, sizeof(path)), 0);
		ASSERT_STREQ(path, path_of(it->second.tag));
	}

	static const char *path_of(uint64_t n)
	{
		static char text[64];
		snprintf(text, sizeof(text), "/lib/%.*s%lu", (int)(n % 40),
			 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", (unsigned long)n);
		return text;
	}

	std::map<uint64_t, Entry> entries;

private:
	std::mt19937_64 random;
	std::vector<std::vector<uint8_t>> sections;
	sframe::Metadata meta;
	uint64_t tag = 0;
};

TEST(ModelTest, AHundredThousandRandomOperations)
{
	Model model(20261201);

	for (int i = 0; i < 100'000 && !testing::Test::HasFatalFailure(); i++) {
		// Times of growing and of shrinking, so that every node merge is met.
		const uint64_t growing = i / 10'000 % 2 ? 45 : 70, roll = model.below(1000);
		if (roll < growing * 10)
			model.try_add();
		else if (roll < growing * 10 + 80)
			model.try_replace();
		else if (roll < 995)
			model.try_remove();
		else
			model.try_remove_section();
		for (int j = 0; j < 3; j++)
			model.check(base + model.below(40000 * 16 + 100));
	}
	auto stats = sized<sframe_stats>();
	sframe_get_stats(&stats);
	EXPECT_EQ(stats.live, model.entries.size());
	EXPECT_EQ(stats.registered - stats.unregistered, stats.live);
	EXPECT_EQ(stats.lookup_failures, 0u);
}

TEST(ModelTest, TwoHundredThousandRangesInEveryOrder)
{
	const std::vector<uint8_t> section = make_section(1);
	constexpr uint64_t n = 200'000;
	sframe::Metadata meta;
	sframe::Covering covering;

	meta.executable = true;
	// Ascending, descending, and scattered (a step that is prime to n).
	for (const uint64_t step : { UINT64_C(1), n - 1, UINT64_C(77'773) }) {
		for (uint64_t i = 0, at = 0; i < n; i++, at = (at + step) % n)
			ASSERT_EQ(sframe::registry_add(setup_of(section, base + at * 32, 24), meta), 0);
		for (uint64_t i = 0; i < n; i += 7) {
			ASSERT_EQ(sframe::registry_lookup(base + i * 32 + 23, &covering), 0);
			ASSERT_EQ(covering.text_start, base + i * 32);
			ASSERT_EQ(sframe::registry_lookup(base + i * 32 + 24, &covering), -ENOENT);
		}
		// First in, first out: every second one by range, the rest by section.
		for (uint64_t i = 0; i < n; i += 2)
			ASSERT_EQ(sframe::registry_remove(setup_of(section, base + i * 32, 24)), 0);
		ASSERT_EQ(sframe::registry_remove({ (uint64_t)section.data(), 0, 0, 0, 0, 0 }), 0);
		ASSERT_EQ(sframe::registry_lookup(base, &covering), -ENOENT);
	}
}

// What is freed is used again: churn does not eat memory.
TEST(ModelTest, ChurnUsesBoundedMemory)
{
	const std::vector<uint8_t> section = make_section(1);
	const sframe::Control *c = sframe::registry_control(true);
	sframe::Metadata meta;
	uint32_t nodes = 0;

	meta.executable = true;
	meta.path = "/usr/lib/plugin.so";
	for (int i = 0; i < 20'000; i++) {
		ASSERT_EQ(sframe::registry_add(setup_of(section, base + i % 50 * 32, 24), meta), 0);
		if (i >= 40) {
			const uint64_t oldest = base + (i - 40) % 50 * 32;
			ASSERT_EQ(sframe::registry_remove(setup_of(section, oldest, 24)), 0);
		}
		if (i == 2'000)
			nodes = c->node_arena.fresh;
	}
	EXPECT_EQ(c->node_arena.fresh, nodes);
	sframe::registry_remove({ (uint64_t)section.data(), 0, 0, 0, 0, 0 });
}

} // namespace
