// SPDX-License-Identifier: MIT
//
// The profile file: what is written is read back; what is cut short or
// damaged is read as far as it goes.
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <sstream>
#include <unistd.h>
#include <sframe/register.h>
#include "record/profile.h"

using namespace sframe::record;

namespace {

class ProfileFile : public testing::Test {
protected:
	void SetUp() override { path_ = "/tmp/sframe-profile-test." + std::to_string(getpid()); }
	void TearDown() override { unlink(path_.c_str()); }

	static profile_header header()
	{
		profile_header h = {};
		h.magic = PROFILE_MAGIC;
		h.version = PROFILE_VERSION;
		h.header_size = sizeof(h);
		h.period_ns = 10101010;
		return h;
	}

	template <typename T> static void append(ProfileWriter &w, T fixed, uint32_t kind, const std::string &behind = "")
	{
		const size_t size = sizeof(T) + behind.size();
		std::vector<uint64_t> bytes((size + 7) / 8);
		fixed.record.kind = kind;
		fixed.record.size = static_cast<uint32_t>(size);
		memcpy(bytes.data(), &fixed, sizeof(T));
		memcpy(reinterpret_cast<char *>(bytes.data()) + sizeof(T), behind.data(), behind.size());
		w.append(reinterpret_cast<ring_record *>(bytes.data()));
	}

	static void append_sample(ProfileWriter &w, uint32_t image, uint32_t tid, uint64_t time,
				  const std::vector<std::pair<uint64_t, uint64_t>> &frames)
	{
		ring_sample s = {};
		s.record.image = image;
		s.pid = 100;
		s.tid = tid;
		s.time_ns = time;
		s.count = static_cast<uint16_t>(frames.size());
		std::string pcs, ids;
		for (const auto &[pc, id] : frames) {
			pcs.append(reinterpret_cast<const char *>(&pc), 8);
			ids.append(reinterpret_cast<const char *>(&id), 8);
		}
		append(w, s, RING_SAMPLE, pcs + ids);
	}

	static void append_object(ProfileWriter &w, uint32_t image, uint64_t id, const std::string &path)
	{
		ring_object o = {};
		o.record.image = image;
		o.id = id;
		o.load_bias = 0x1000 * id;
		o.source = SFRAME_SOURCE_SYNTHESIZED;
		o.build_id_size = 20;
		o.path_size = static_cast<uint32_t>(path.size());
		append(w, o, RING_OBJECT, path);
	}

	// One of everything.
	void write()
	{
		ProfileWriter w;
		ASSERT_EQ(w.open(path_, header()), 0);
		char a[] = "prog", b[] = "an argument", *argv[] = { a, b, nullptr };
		w.append_command(argv);
		ring_image image = {};
		image.record.image = 1;
		image.pid = 100;
		image.path_size = 9;
		append(w, image, RING_IMAGE, "/bin/prog");
		append_sample(w, 1, 101, 5, { { 0x1234, 1 }, { 0x5678, 2 } });
		append_object(w, 1, 1, "/lib/one.so");	// behind the sample that names it
		append_object(w, 1, 2, "/lib/two.so");
		append_object(w, 2, 1, "/lib/other.so");	// the same id in another image
		append_sample(w, 1, 101, 6, { { 0x1234, 1 }, { 0x5678, 2 } });
		append_sample(w, 2, 102, 7, { { 0x1234, 1 } });
		profile_thread t = {};
		t.pid = 100;
		t.tid = 101;
		strcpy(t.name, "worker");
		append(w, t, PROFILE_THREAD);
		profile_end e = {};
		e.counters.lost = 3;
		e.counters.record.kind = PROFILE_END;
		e.counters.record.size = sizeof(e);
		w.append(&e.counters.record);
		ASSERT_EQ(w.flush(), 0);
	}

	std::string bytes() const
	{
		std::ifstream in(path_, std::ios::binary);
		std::stringstream out;
		out << in.rdbuf();
		return out.str();
	}

	std::string path_;
};

TEST_F(ProfileFile, RoundTrip)
{
	write();
	Profile p;
	std::string why;
	ASSERT_TRUE(read_profile_file(path_, &p, &why)) << why;
	EXPECT_EQ(p.command, (std::vector<std::string>{ "prog", "an argument" }));
	ASSERT_EQ(p.samples.size(), 3u);
	EXPECT_EQ(p.stacks.size(), 2u);	// equal stacks are kept once
	EXPECT_EQ(p.samples[0].stack, p.samples[1].stack);
	const Frame inner = p.stacks[p.samples[0].stack][0];
	EXPECT_EQ(inner.pc, 0x1234u);
	ASSERT_NE(inner.object, NO_OBJECT);
	EXPECT_EQ(p.objects[inner.object].path, "/lib/one.so");
	EXPECT_EQ(p.objects[p.stacks[p.samples[2].stack][0].object].path, "/lib/other.so");
	EXPECT_EQ(p.thread_names.at({ 100, 101 }), "worker");
	EXPECT_EQ(p.images.at(1).path, "/bin/prog");
	EXPECT_EQ(p.lost, 3u);
	EXPECT_TRUE(p.ended);
	EXPECT_FALSE(p.truncated);
}

TEST_F(ProfileFile, CutAnywhereIsReadAsFarAsItGoes)
{
	write();
	const std::string all = bytes();
	size_t most = 0;
	for (size_t size = 0; size < all.size(); size++) {
		Profile p;
		std::string why;
		// A copy of exactly this size: reading behind it is found by ASan.
		const std::vector<char> cut(all.begin(), all.begin() + size);
		const bool ok = read_profile(cut.data(), cut.size(), &p, &why);
		EXPECT_EQ(ok, size >= sizeof(profile_header)) << size;
		EXPECT_GE(p.samples.size(), most);
		EXPECT_FALSE(p.ended);
		most = p.samples.size();
	}
	EXPECT_EQ(most, 3u);
}

TEST_F(ProfileFile, DamageIsNoticed)
{
	write();
	const std::string all = bytes();
	std::mt19937 random(4);
	for (int i = 0; i < 2000; i++) {
		std::string copy = all;
		copy[sizeof(profile_header) + random() % (copy.size() - sizeof(profile_header))] ^= 1 << random() % 8;
		Profile p;
		std::string why;
		ASSERT_TRUE(read_profile(copy.data(), copy.size(), &p, &why));
		EXPECT_LE(p.samples.size(), 3u);
	}
}

TEST_F(ProfileFile, UnknownKindsAreSkipped)
{
	{
		ProfileWriter w;
		ASSERT_EQ(w.open(path_, header()), 0);
		append_sample(w, 1, 1, 1, { { 1, 1 } });
		profile_thread later = {};
		append(w, later, 4711, "what a later version says");
		append_sample(w, 1, 1, 2, { { 1, 1 } });
	}
	Profile p;
	std::string why;
	ASSERT_TRUE(read_profile_file(path_, &p, &why)) << why;
	EXPECT_EQ(p.samples.size(), 2u);
}

TEST_F(ProfileFile, AnotherVersionIsRefusedByNumber)
{
	{
		ProfileWriter w;
		profile_header h = header();
		h.version = 9;
		ASSERT_EQ(w.open(path_, h), 0);
	}
	Profile p;
	std::string why;
	EXPECT_FALSE(read_profile_file(path_, &p, &why));
	EXPECT_NE(why.find("version 9"), std::string::npos);
}

} // namespace
