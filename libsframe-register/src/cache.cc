// SPDX-License-Identifier: MIT
//
// The cache of synthesized sections: one file per object and synthesizer,
// mapped read-only and shared by every process that loads the object.
//
// A file is the section, padded to eight bytes, and a trailer of fixed layout
// that says what the section was made from. It appears under its name by
// rename, whole and synced, and is never written again, so a mapping of it
// cannot change. Whatever is not exactly as this file would have written it,
// owned by this user and writable by nobody else, counts as absent and is
// replaced. Whatever stands in the way of the cache costs speed, never the
// section: it is made in private memory then.
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sframe/synth.h>
#include "config.h"
#include "registry.h"
#include "synth_version.h"
#include "sys.h"
#include "text.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace sframe {

namespace {

constexpr char kMagic[8] = { 'S', 'F', 'c', 'a', 'c', 'h', 'e', '1' };
constexpr size_t kMaxPath = 4096;
constexpr size_t kMaxName = 96;

// A temporary file this old was left by a writer that died.
constexpr int64_t kStaleSeconds = 60;

// What a section was made from. The build-id alone is not enough: tools that
// edit a linked file (prelink, patchelf) move segments and leave it as it was.
struct Key {
	unsigned char id[20];	// build-id, or a hash of .eh_frame where there is none
	uint32_t id_size;
	uint64_t layout;	// hash of segments and of where .eh_frame is
};

struct Trailer {
	char magic[8];
	uint32_t trailer_size;
	uint32_t synth_version;
	uint64_t section_size;
	Key key;
	sframe_synth_stats stats;
};

// Closes on every way out: the program's descriptors are none of ours.
class Fd {
public:
	explicit Fd(long fd) : fd_(static_cast<int>(fd)) {}
	~Fd()
	{
		if (fd_ >= 0)
			sys::call(__NR_close, fd_);
	}
	Fd(const Fd &) = delete;
	Fd &operator=(const Fd &) = delete;
	int get() const { return fd_; }
	bool ok() const { return fd_ >= 0; }

private:
	int fd_;
};

uint64_t mix(uint64_t a, uint64_t b)
{
	const auto product = static_cast<unsigned __int128>(a ^ UINT64_C(0x9e3779b97f4a7c15)) *
			     (b ^ UINT64_C(0xd1b54a32d192ed03));

	return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t hash_bytes(const unsigned char *bytes, uint64_t size, uint64_t hash)
{
	uint64_t word = 0;

	hash = mix(hash, size);
	for (; size >= sizeof(word); bytes += sizeof(word), size -= sizeof(word)) {
		memcpy(&word, bytes, sizeof(word));
		hash = mix(hash, word);
	}
	word = 0;
	memcpy(&word, bytes, size);
	return mix(hash, word);
}

uint64_t hash_layout(const sframe_image &image)
{
	uint64_t hash = mix(image.eh_frame, image.eh_frame_hdr);

	hash = mix(hash, image.eh_frame_hdr_size);
	for (uint32_t i = 0; i < image.segment_count; i++) {
		hash = mix(hash, image.segment[i].vaddr);
		hash = mix(hash, image.segment[i].size << 3 | image.segment[i].flags);
	}
	return hash;
}

// 0; -ENOTSUP for an object that nothing identifies from run to run.
int make_key(const sframe_image &image, Key *key)
{
	*key = {};
	key->layout = hash_layout(image);
	if (image.build_id_size) {
		key->id_size = image.build_id_size;
		memcpy(key->id, image.build_id, image.build_id_size);
		return 0;
	}
	// Contents stand in for the build-id, unless relocation changes them.
	for (uint32_t i = 0; i < image.segment_count; i++) {
		const sframe_image_segment &seg = image.segment[i];
		const uint64_t offset = image.eh_frame - seg.vaddr;

		if (!seg.bytes || image.eh_frame < seg.vaddr || offset >= seg.size)
			continue;
		if (seg.flags & PF_W && image.relocated)
			return -ENOTSUP;
		uint64_t size = seg.size - offset;
		if (image.eh_frame_size && image.eh_frame_size < size)
			size = image.eh_frame_size;
		const uint64_t low = hash_bytes(seg.bytes + offset, size, 1);
		const uint64_t high = mix(low, hash_bytes(seg.bytes + offset, size, 2));
		memcpy(key->id, &low, sizeof(low));
		memcpy(key->id + sizeof(low), &high, sizeof(high));
		key->id_size = 2 * sizeof(low);
		return 0;
	}
	return -ENOTSUP;
}

bool file_name(const Key &key, const char *suffix, char (&name)[kMaxName])
{
	Text text(name, sizeof(name));

	text.hex_bytes(key.id, key.id_size).str("-").hex(key.layout, 16).str("-");
	text.hex(SFRAME_SYNTH_VERSION, 8).str(suffix);
	return !text.overflow();
}

// The parent of the cache's directory: $XDG_CACHE_HOME or ~/.cache.
int parent_directory(char *path, size_t size)
{
	const Config &c = config();
	Text text(path, size);

	if (c.cache_home[0] == '/')	// a relative one is to be ignored, says its standard
		text.str(c.cache_home);
	else if (c.home[0] == '/')
		text.str(c.home).str("/.cache");
	else
		return -ENOENT;
	return text.overflow() ? -ERANGE : 0;
}

// Writable by this user and by nobody else.
int check_owner(const struct stat &st, mode_t type)
{
	if ((st.st_mode & S_IFMT) != type)
		return -ENOTDIR;
	if (st.st_uid != static_cast<uid_t>(sys::call(__NR_geteuid)) ||
	    st.st_mode & (S_IWGRP | S_IWOTH))
		return -EACCES;
	return 0;
}

int open_directory(bool create)
{
	char path[kMaxPath];
	constexpr int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	struct stat st;

	int err = sframe_cache_directory(path, sizeof(path));
	if (err)
		return err;
	long fd = sys::call(__NR_openat, AT_FDCWD, sys::arg(path), flags);
	if (fd == -ENOENT && create) {
		char parent[kMaxPath];

		parent_directory(parent, sizeof(parent));
		sys::call(__NR_mkdir, sys::arg(parent), 0700);
		const long made = sys::call(__NR_mkdir, sys::arg(path), 0700);
		if (sys::failed(made) && made != -EEXIST)
			return static_cast<int>(made);
		fd = sys::call(__NR_openat, AT_FDCWD, sys::arg(path), flags);
	}
	if (sys::failed(fd))
		return static_cast<int>(fd);
	err = static_cast<int>(sys::call(__NR_fstat, fd, sys::arg(&st)));
	if (!err)
		err = check_owner(st, S_IFDIR);
	if (err) {
		sys::call(__NR_close, fd);
		return err;
	}
	return static_cast<int>(fd);
}

size_t padded(size_t section_size) { return (section_size + 7) & ~size_t{7}; }

bool describes(const Trailer &trailer, const Key &key, size_t file_size)
{
	return !memcmp(trailer.magic, kMagic, sizeof(kMagic)) &&
	       trailer.trailer_size == sizeof(Trailer) &&
	       trailer.synth_version == SFRAME_SYNTH_VERSION &&
	       !memcmp(&trailer.key, &key, sizeof(key)) &&
	       trailer.section_size <= file_size - sizeof(Trailer) &&
	       padded(trailer.section_size) == file_size - sizeof(Trailer);
}

// Map the file behind @fd if it is what it should be.
int map_file(int fd, const Key &key, sframe_cached *cached)
{
	struct stat st;
	Trailer trailer;

	int err = static_cast<int>(sys::call(__NR_fstat, fd, sys::arg(&st)));
	if (!err)
		err = check_owner(st, S_IFREG);
	if (err)
		return err;
	const auto size = static_cast<size_t>(st.st_size);
	if (size < sizeof(Trailer) || size % 8)
		return -EBADMSG;
	const long at = sys::call(__NR_mmap, 0, sys::arg(size), PROT_READ, MAP_SHARED, fd, 0);
	if (sys::failed(at))
		return static_cast<int>(at);
	const auto *bytes = reinterpret_cast<const unsigned char *>(at);
	memcpy(&trailer, bytes + size - sizeof(trailer), sizeof(trailer));
	if (!describes(trailer, key, size)) {
		sys::call(__NR_munmap, at, sys::arg(size));
		return -EBADMSG;
	}
	cached->section = bytes;
	cached->section_size = trailer.section_size;
	cached->mapping_size = size;
	cached->stats = trailer.stats;
	return 0;
}

int find_file(int dir, const char *name, const Key &key, sframe_cached *cached)
{
	// O_NONBLOCK: somebody may have put a FIFO there.
	Fd fd(sys::call(__NR_openat, dir, sys::arg(name),
			O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));

	return fd.ok() ? map_file(fd.get(), key, cached) : fd.get();
}

int write_all(int fd, const void *data, size_t size)
{
	const auto *at = static_cast<const unsigned char *>(data);

	while (size) {
		const long n = sys::call(__NR_write, fd, sys::arg(at), sys::arg(size));
		if (n == -EINTR)
			continue;
		if (n <= 0)
			return n ? static_cast<int>(n) : -EIO;
		at += n;
		size -= static_cast<size_t>(n);
	}
	return 0;
}

int write_contents(int fd, const Key &key, const sframe_synth &synth)
{
	constexpr unsigned char kZero[8] = {};
	Trailer trailer;

	memset(&trailer, 0, sizeof(trailer));
	memcpy(trailer.magic, kMagic, sizeof(kMagic));
	trailer.trailer_size = sizeof(trailer);
	trailer.synth_version = SFRAME_SYNTH_VERSION;
	trailer.section_size = synth.section_size;
	trailer.key = key;
	trailer.stats = synth.stats;
	int err = write_all(fd, synth.section, synth.section_size);
	if (!err)
		err = write_all(fd, kZero, padded(synth.section_size) - synth.section_size);
	if (!err)
		err = write_all(fd, &trailer, sizeof(trailer));
	if (!err)
		err = static_cast<int>(sys::call(__NR_fdatasync, fd));
	return err;
}

// One temporary name per file: of several writers one writes, and debris of a
// writer that was killed cannot pile up.
long create_temporary(int dir, const char *name)
{
	constexpr int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	long fd = sys::call(__NR_openat, dir, sys::arg(name), flags, 0600);
	struct timespec now;
	struct stat st;

	if (fd != -EEXIST ||
	    sys::failed(sys::call(__NR_newfstatat, dir, sys::arg(name), sys::arg(&st),
				  AT_SYMLINK_NOFOLLOW)) ||
	    sys::failed(sys::call(__NR_clock_gettime, CLOCK_REALTIME, sys::arg(&now))))
		return fd;
	if (now.tv_sec - st.st_mtim.tv_sec < kStaleSeconds)
		return fd;
	sys::call(__NR_unlinkat, dir, sys::arg(name), 0);
	return sys::call(__NR_openat, dir, sys::arg(name), flags, 0600);
}

// Past this limit a write would send SIGXFSZ to a program that never wrote.
bool over_file_limit(size_t size)
{
	struct rlimit limit;

	return !sys::failed(sys::call(__NR_prlimit64, 0, RLIMIT_FSIZE, 0, sys::arg(&limit))) &&
	       limit.rlim_cur < size;
}

// Write the file and map it in place of the private memory.
int store(int dir, const char *name, const Key &key, const sframe_synth &synth,
	  sframe_cached *cached)
{
	char temporary[kMaxName];

	if (over_file_limit(padded(synth.section_size) + sizeof(Trailer)))
		return -EFBIG;
	if (!file_name(key, ".tmp", temporary))
		return -ERANGE;
	Fd fd(create_temporary(dir, temporary));
	if (!fd.ok())
		return fd.get();
	int err = write_contents(fd.get(), key, synth);
	if (!err)
		err = map_file(fd.get(), key, cached);
	if (!err)
		err = static_cast<int>(sys::call(__NR_renameat, dir, sys::arg(temporary), dir,
						 sys::arg(name)));
	if (err)
		sys::call(__NR_unlinkat, dir, sys::arg(temporary), 0);
	return err;
}

// Look the file up: 0, or why there is none.
int look_up(const Key &key, sframe_cached *cached)
{
	char name[kMaxName];

	if (!file_name(key, ".sframe", name))
		return -ERANGE;
	Fd dir(open_directory(false));
	return dir.ok() ? find_file(dir.get(), name, key, cached) : dir.get();
}

int keep(const Key &key, const sframe_synth &synth, sframe_cached *cached)
{
	char name[kMaxName];

	if (!file_name(key, ".sframe", name))
		return -ERANGE;
	Fd dir(open_directory(true));
	return dir.ok() ? store(dir.get(), name, key, synth, cached) : dir.get();
}

void own_private(const sframe_synth &synth, sframe_cached *cached)
{
	cached->section = synth.section;
	cached->section_size = synth.section_size;
	cached->mapping_size = synth.mapping_size;
	cached->stats = synth.stats;
}

} // namespace
} // namespace sframe

using namespace sframe;

EXPORT int sframe_cache_directory(char *path, size_t size)
{
	if (!size)
		return -ERANGE;
	const int err = parent_directory(path, size);
	if (err)
		return err;
	const size_t length = strlen(path);
	Text text(path + length, size - length);
	text.str("/sframe");
	return text.overflow() ? -ERANGE : 0;
}

EXPORT int sframe_cache_get(const struct sframe_image *image, struct sframe_cached *cached)
{
	const size_t size = cached->size;
	sframe_synth synth = {};
	Key key;

	if (size < sizeof(*cached))
		return -EINVAL;
	memset(cached, 0, sizeof(*cached));
	cached->size = size;

	int unusable = make_key(*image, &key);
	if (!unusable && look_up(key, cached) == 0) {
		cached->from_cache = 1;
		registry_count(&sframe_stats::cache_hits);
		return 0;
	}
	synth.size = sizeof(synth);
	const int err = sframe_synthesize(image, &synth);
	if (err)
		return err;
	registry_count(&sframe_stats::cache_misses);
	if (!unusable)
		unusable = keep(key, synth, cached);
	if (!unusable) {
		sframe_synth_release(&synth);
		return 0;
	}
	if (cached->section)	// mapped, but the rename failed
		sframe_cache_release(cached);
	own_private(synth, cached);
	cached->cache_error = unusable;
	registry_count(&sframe_stats::cache_errors);
	return 0;
}

EXPORT void sframe_cache_release(struct sframe_cached *cached)
{
	if (cached->section)
		sys::call(__NR_munmap, sys::arg(cached->section),
			  sys::arg(cached->mapping_size));
	cached->section = nullptr;
	cached->section_size = cached->mapping_size = 0;
}
