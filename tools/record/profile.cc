// SPDX-License-Identifier: MIT
#include "profile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unordered_map>
#include <sframe/unwind.h>

namespace sframe::record {

namespace {

template <typename T> bool as(const ring_record *record, size_t size, T *out)
{
	if (size < sizeof(T))
		return false;
	memcpy(out, record, sizeof(T));
	return true;
}

template <typename T> bool has_path(const ring_record *record, size_t size)
{
	T t;
	return as(record, size, &t) && t.path_size <= RING_MAX_PATH && size == sizeof(T) + t.path_size;
}

bool sample_valid(const ring_record *record, size_t size)
{
	ring_sample s;
	return as(record, size, &s) && s.count <= RING_MAX_FRAMES &&
	       size == sizeof(s) + s.count * 2 * sizeof(uint64_t);
}

constexpr size_t padded(size_t size) { return (size + 7) & ~size_t{ 7 }; }

} // namespace

bool record_intact(const ring_record *record, size_t size)
{
	ring_record head;

	return as(record, size, &head) && head.size == size &&
	       head.check == ring_checksum(record, head.size);
}

bool record_valid(const ring_record *record, size_t size)
{
	ring_record head;

	if (!record_intact(record, size))
		return false;
	memcpy(&head, record, sizeof(head));
	switch (head.kind) {
	case RING_SAMPLE:
		return sample_valid(record, size);
	case RING_OBJECT:
		return has_path<ring_object>(record, size);
	case RING_IMAGE:
		return has_path<ring_image>(record, size);
	case RING_STATS:
		return size == sizeof(ring_stats);
	case PROFILE_COMMAND:
		return true;
	case PROFILE_THREAD:
		return size == sizeof(profile_thread);
	case PROFILE_COUNTERS:
		return size == sizeof(profile_counters);
	case PROFILE_END:
		return size == sizeof(profile_end);
	}
	return false;
}

// ---- writing ------------------------------------------------------------------

ProfileWriter::~ProfileWriter()
{
	flush();
	if (fd_ >= 0)
		close(fd_);
}

int ProfileWriter::open(const std::string &path, const profile_header &header)
{
	fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd_ < 0)
		return -errno;
	buffer_.assign(reinterpret_cast<const char *>(&header), sizeof(header));
	return flush();
}

void ProfileWriter::append(ring_record *record)
{
	record->check = ring_checksum(record, record->size);
	buffer_.append(reinterpret_cast<const char *>(record), record->size);
	buffer_.append(padded(record->size) - record->size, '\0');
	if (buffer_.size() > (1u << 20))
		flush();
}

void ProfileWriter::append_command(char *const *argv)
{
	std::string bytes(sizeof(ring_record), '\0');

	for (; *argv; argv++)
		bytes.append(*argv, strlen(*argv) + 1);
	std::vector<uint64_t> aligned(padded(bytes.size()) / 8);
	memcpy(aligned.data(), bytes.data(), bytes.size());
	auto *const record = reinterpret_cast<ring_record *>(aligned.data());
	record->kind = PROFILE_COMMAND;
	record->size = static_cast<uint32_t>(bytes.size());
	append(record);
}

int ProfileWriter::flush()
{
	size_t at = 0;

	while (!error_ && fd_ >= 0 && at < buffer_.size()) {
		const ssize_t n = write(fd_, buffer_.data() + at, buffer_.size() - at);
		if (n >= 0)
			at += n;
		else if (errno != EINTR)
			error_ = -errno;
	}
	buffer_.clear();
	return error_;
}

// ---- reading ------------------------------------------------------------------

bool Sample::complete() const { return stop == SFRAME_STOP_OUTERMOST && frames_fp == 0; }

std::set<std::pair<uint32_t, uint32_t>> Profile::threads() const
{
	std::set<std::pair<uint32_t, uint32_t>> out;

	for (const Sample &s : samples)
		out.emplace(s.pid, s.tid);
	return out;
}

namespace {

// Builds a Profile from records in file order. Equal stacks are kept once.
class Reader {
public:
	explicit Reader(Profile *out) : out_(*out) {}

	void add(const ring_record *record);
	void finish();

private:
	void add_sample(const ring_record *record);
	void add_object(const ring_record *record);
	void add_command(const ring_record *record);
	void add_counters(const profile_counters &c);
	uint32_t object_of(uint32_t image, uint64_t id) const;

	Profile &out_;
	std::unordered_map<std::string, uint32_t> stacks_;	// image, PCs and ids, as bytes
	std::vector<std::string> raw_;				// of each stack: the key
	std::map<std::pair<uint32_t, uint64_t>, uint32_t> objects_;
};

std::string text_behind(const ring_record *record, size_t header, size_t size)
{
	return std::string(reinterpret_cast<const char *>(record) + header, size);
}

void Reader::add_sample(const ring_record *record)
{
	ring_sample s;
	as(record, record->size, &s);
	std::string key(reinterpret_cast<const char *>(&s.record.image), sizeof(uint32_t));
	key += text_behind(record, sizeof(s), s.count * 2 * sizeof(uint64_t));
	const auto [it, fresh] = stacks_.try_emplace(std::move(key), static_cast<uint32_t>(raw_.size()));
	if (fresh)
		raw_.push_back(it->first);
	out_.samples.push_back({ s.record.image, s.pid, s.tid, s.time_ns, s.overrun, s.stop,
				 s.frames_sframe, s.frames_fp, s.frames_signal, s.stop_pc, it->second });
}

void Reader::add_object(const ring_record *record)
{
	ring_object o;
	as(record, record->size, &o);
	const uint32_t index = static_cast<uint32_t>(out_.objects.size());
	if (!objects_.try_emplace({ o.record.image, o.id }, index).second)
		return;
	const size_t id_size = o.build_id_size < sizeof(o.build_id) ? o.build_id_size : sizeof(o.build_id);
	out_.objects.push_back({ o.record.image, o.id, o.load_bias, o.text_start, o.text_end, o.source,
				 o.version,
				 std::string(reinterpret_cast<const char *>(o.build_id), id_size),
				 text_behind(record, sizeof(o), o.path_size) });
}

void Reader::add_command(const ring_record *record)
{
	const std::string all = text_behind(record, sizeof(*record), record->size - sizeof(*record));

	out_.command.clear();
	for (size_t at = 0; at < all.size();) {
		const size_t end = std::min(all.find('\0', at), all.size());
		out_.command.push_back(all.substr(at, end - at));
		at = end + 1;
	}
}

void Reader::add_counters(const profile_counters &c)
{
	out_.lost = c.lost;
	out_.overruns = c.overruns;
	out_.unsampled_threads = c.unsampled_threads;
	out_.timers = c.threads;
}

void Reader::add(const ring_record *record)
{
	switch (record->kind) {
	case RING_SAMPLE:
		add_sample(record);
		break;
	case RING_OBJECT:
		add_object(record);
		break;
	case RING_IMAGE: {
		ring_image i;
		as(record, record->size, &i);
		Image &image = out_.images[record->image];
		image.pid = i.pid;
		image.parent = i.parent_image;
		image.time_ns = i.time_ns;
		image.path = text_behind(record, sizeof(i), i.path_size);
		break;
	}
	case RING_STATS: {
		ring_stats s;
		as(record, record->size, &s);
		Image &image = out_.images[record->image];
		image.native = s.native;
		image.synthesized = s.synthesized;
		image.refused = s.refused;
		break;
	}
	case PROFILE_COMMAND:
		add_command(record);
		break;
	case PROFILE_THREAD: {
		profile_thread t;
		as(record, record->size, &t);
		out_.thread_names[{ t.pid, t.tid }] = std::string(t.name, strnlen(t.name, sizeof(t.name)));
		break;
	}
	case PROFILE_COUNTERS: {
		profile_counters c;
		as(record, record->size, &c);
		add_counters(c);
		break;
	}
	case PROFILE_END: {
		profile_end e;
		as(record, record->size, &e);
		add_counters(e.counters);
		out_.ended = true;
		out_.end_monotonic_ns = e.end_monotonic_ns;
		out_.wait_status = e.wait_status;
		break;
	}
	}
}

uint32_t Reader::object_of(uint32_t image, uint64_t id) const
{
	const auto it = objects_.find({ image, id });
	return id && it != objects_.end() ? it->second : NO_OBJECT;
}

// Objects may follow the samples that name them, so ids are resolved at the end.
void Reader::finish()
{
	out_.stacks.reserve(raw_.size());
	for (const std::string &raw : raw_) {
		uint32_t image;
		memcpy(&image, raw.data(), sizeof(image));
		const size_t count = (raw.size() - sizeof(image)) / (2 * sizeof(uint64_t));
		const char *const pcs = raw.data() + sizeof(image);
		const char *const ids = pcs + count * sizeof(uint64_t);
		std::vector<Frame> &frames = out_.stacks.emplace_back(count);
		for (size_t i = 0; i < count; i++) {
			uint64_t id;
			memcpy(&frames[i].pc, pcs + i * sizeof(uint64_t), sizeof(uint64_t));
			memcpy(&id, ids + i * sizeof(uint64_t), sizeof(id));
			frames[i].object = object_of(image, id);
		}
	}
}

} // namespace

bool read_profile(const void *bytes, size_t size, Profile *out, std::string *why)
{
	const unsigned char *const file = static_cast<const unsigned char *>(bytes);

	*out = {};
	if (size < sizeof(out->header) ||
	    (memcpy(&out->header, file, sizeof(out->header)), out->header.magic != PROFILE_MAGIC)) {
		*why = "not a profile";
		return false;
	}
	if (out->header.version != PROFILE_VERSION || out->header.header_size < sizeof(out->header)) {
		*why = "a profile of version " + std::to_string(out->header.version) +
		       ", this program reads version " + std::to_string(PROFILE_VERSION);
		return false;
	}
	Reader reader(out);
	std::vector<uint64_t> aligned;
	size_t at = padded(out->header.header_size);
	while (at < size) {
		ring_record head;
		if (size - at < sizeof(head))
			break;
		memcpy(&head, file + at, sizeof(head));
		if (head.size < sizeof(head) || head.size > size - at)
			break;
		aligned.resize(padded(head.size) / 8);
		memcpy(aligned.data(), file + at, head.size);
		const auto *const record = reinterpret_cast<const ring_record *>(aligned.data());
		if (!record_intact(record, head.size))
			break;
		if (record_valid(record, head.size))	// else of a kind not known yet
			reader.add(record);
		at += padded(head.size);
	}
	out->truncated = at < size;
	reader.finish();
	return true;
}

bool read_profile_file(const std::string &path, Profile *out, std::string *why)
{
	const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0) {
		*why = strerror(errno);
		if (fd >= 0)
			close(fd);
		return false;
	}
	if (!S_ISREG(st.st_mode) || st.st_size == 0) {
		*why = S_ISREG(st.st_mode) ? "empty" : "not a regular file";
		close(fd);
		return false;
	}
	void *const p = mmap(nullptr, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (p == MAP_FAILED) {
		*why = strerror(errno);
		return false;
	}
	const bool ok = read_profile(p, st.st_size, out, why);
	munmap(p, st.st_size);
	return ok;
}

} // namespace sframe::record
