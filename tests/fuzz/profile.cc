// SPDX-License-Identifier: MIT
//
// The profile file from anybody: read, and what is read must hold together.
// Records carry a checksum that mutation seldom gets right, so each input is
// read twice: as it is, and with its checksums made right.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>
#include "../../tools/record/profile.h"

using namespace sframe::record;

namespace {

void require(bool holds)
{
	if (!holds)
		abort();
}

void check(const Profile &p)
{
	for (const Sample &s : p.samples)
		require(s.stack < p.stacks.size());
	for (const std::vector<Frame> &stack : p.stacks) {
		require(stack.size() <= RING_MAX_FRAMES);
		for (const Frame &f : stack)
			require(f.object == NO_OBJECT || f.object < p.objects.size());
	}
	for (const Object &o : p.objects)
		require(o.path.size() <= RING_MAX_PATH && o.build_id.size() <= sizeof(ring_object::build_id));
	require(p.threads().size() <= p.samples.size());
}

void read(const std::vector<uint8_t> &bytes)
{
	Profile profile;
	std::string why;

	if (read_profile(bytes.data(), bytes.size(), &profile, &why))
		check(profile);
	else
		require(!why.empty());
}

void repair(std::vector<uint8_t> &bytes)
{
	profile_header header;

	if (bytes.size() < sizeof(header))
		return;
	memcpy(&header, bytes.data(), sizeof(header));
	header.magic = PROFILE_MAGIC;
	header.version = PROFILE_VERSION;
	header.header_size = sizeof(header);
	memcpy(bytes.data(), &header, sizeof(header));
	for (size_t at = sizeof(header); bytes.size() - at >= sizeof(ring_record);) {
		ring_record record;
		memcpy(&record, &bytes[at], sizeof(record));
		if (record.size < sizeof(record) || record.size > bytes.size() - at)
			return;
		std::vector<uint64_t> aligned((record.size + 7) / 8);
		memcpy(aligned.data(), &bytes[at], record.size);
		record.check = ring_checksum(reinterpret_cast<const ring_record *>(aligned.data()), record.size);
		memcpy(&bytes[at], &record, sizeof(record));
		const size_t step = (record.size + 7) & ~size_t{ 7 };
		if (step > bytes.size() - at)
			return;
		at += step;
	}
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	std::vector<uint8_t> bytes(data, data + size);

	read(bytes);
	repair(bytes);
	read(bytes);
	return 0;
}
