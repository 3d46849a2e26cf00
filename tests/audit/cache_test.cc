// SPDX-License-Identifier: MIT
//
// The cache of synthesized sections: what it keeps, and what it refuses.
#include <cerrno>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include "../synth/mapped_file.h"
#include "config.h"
#include "process.h"
#include "registry.h"

namespace {

namespace fs = std::filesystem;

std::map<std::string, std::string> variables;

const char *find_variable(const char *name)
{
	const auto at = variables.find(name);

	return at == variables.end() ? nullptr : at->second.c_str();
}

void set_environment(const std::map<std::string, std::string> &values, bool secure = false)
{
	variables = values;
	sframe::config_source(find_variable, secure);
	sframe::config_reset();
}

size_t open_files()
{
	size_t n = 0;

	for ([[maybe_unused]] const auto &entry : fs::directory_iterator("/proc/self/fd"))
		n++;
	return n;
}

class Cache : public testing::Test {
protected:
	void SetUp() override
	{
		ASSERT_TRUE(file_);
		ASSERT_EQ(file_.image(&image_), 0);
		set_environment({ { "XDG_CACHE_HOME", home_.path() } });
		files_ = open_files();
	}
	void TearDown() override
	{
		EXPECT_EQ(open_files(), files_) << "a descriptor was left open";
		for (sframe_cached &cached : held_)
			sframe_cache_release(&cached);
	}

	static void TearDownTestSuite() { sframe::registry_exit(); }

	sframe_cached get() { return get(image_); }
	sframe_cached get(const sframe_image &image)
	{
		sframe_cached cached = {};

		cached.size = sizeof(cached);
		EXPECT_EQ(sframe_cache_get(&image, &cached), 0);
		held_.push_back(cached);
		return cached;
	}

	// Whatever the cache did, this is the section.
	void expect_right(const sframe_cached &cached)
	{
		sframe_synth synth = {};

		synth.size = sizeof(synth);
		ASSERT_EQ(sframe_synthesize(&image_, &synth), 0);
		ASSERT_EQ(cached.section_size, synth.section_size);
		EXPECT_EQ(memcmp(cached.section, synth.section, synth.section_size), 0);
		EXPECT_EQ(cached.stats.functions, synth.stats.functions);
		sframe_synth_release(&synth);
	}

	std::string directory() const { return home_ / "sframe"; }

	std::vector<std::string> files() const
	{
		std::vector<std::string> names;

		if (fs::is_directory(directory()))
			for (const auto &entry : fs::directory_iterator(directory()))
				names.push_back(entry.path());
		return names;
	}

	std::string only_file()
	{
		const auto names = files();

		EXPECT_EQ(names.size(), 1u);
		return names.empty() ? "" : names[0];
	}

	// A file that is there but must not be used: made anew and replaced.
	void expect_replaced(const std::string &path)
	{
		const sframe_cached again = get();

		EXPECT_EQ(again.from_cache, 0u);
		EXPECT_EQ(again.cache_error, 0);
		expect_right(again);
		EXPECT_EQ(only_file(), path);
		EXPECT_EQ(get().from_cache, 1u);
	}

	void expect_private(int error)
	{
		const sframe_cached cached = get();

		EXPECT_EQ(cached.from_cache, 0u);
		EXPECT_EQ(cached.cache_error, error) << strerror(-cached.cache_error);
		expect_right(cached);
	}

	MappedFile file_{ "/lib/x86_64-linux-gnu/libc.so.6" };
	TemporaryDirectory home_;
	sframe_image image_;
	size_t files_ = 0;
	std::vector<sframe_cached> held_;
};

TEST_F(Cache, MadeOnceThenMapped)
{
	const sframe_cached made = get();
	const sframe_cached mapped = get();

	EXPECT_EQ(made.from_cache, 0u);
	EXPECT_EQ(made.cache_error, 0);
	EXPECT_EQ(mapped.from_cache, 1u);
	expect_right(made);
	expect_right(mapped);
}

TEST_F(Cache, WhoMakesItMapsTheFileToo)
{
	const sframe_cached made = get();
	std::ifstream maps("/proc/self/maps");
	char start[32];

	snprintf(start, sizeof(start), "%lx-", reinterpret_cast<unsigned long>(made.section));
	for (std::string line; std::getline(maps, line);)
		if (line.find(start) == 0) {
			EXPECT_NE(line.find(" r--s "), std::string::npos) << line;
			EXPECT_NE(line.find(".sframe"), std::string::npos) << line;
			return;
		}
	FAIL() << "not mapped";
}

TEST_F(Cache, FileIsPrivateAndNothingElseIsLeft)
{
	struct stat st;

	get();
	ASSERT_EQ(stat(only_file().c_str(), &st), 0);
	EXPECT_EQ(st.st_mode & 07777, 0600u);
	ASSERT_EQ(stat(directory().c_str(), &st), 0);
	EXPECT_EQ(st.st_mode & 07777, 0700u);
}

TEST_F(Cache, DirectoryFollowsTheEnvironment)
{
	char path[4096];

	set_environment({ { "XDG_CACHE_HOME", "/c" }, { "HOME", "/h" } });
	EXPECT_EQ(sframe_cache_directory(path, sizeof(path)), 0);
	EXPECT_STREQ(path, "/c/sframe");
	EXPECT_EQ(sframe_cache_directory(path, 9), -ERANGE);
	set_environment({ { "HOME", "/h" } });
	EXPECT_EQ(sframe_cache_directory(path, sizeof(path)), 0);
	EXPECT_STREQ(path, "/h/.cache/sframe");
	set_environment({ { "XDG_CACHE_HOME", "relative" }, { "HOME", "/h" } });
	EXPECT_EQ(sframe_cache_directory(path, sizeof(path)), 0);
	EXPECT_STREQ(path, "/h/.cache/sframe");
	set_environment({});
	EXPECT_EQ(sframe_cache_directory(path, sizeof(path)), -ENOENT);
	set_environment({ { "XDG_CACHE_HOME", std::string(5000, '/') } });
	EXPECT_EQ(sframe_cache_directory(path, sizeof(path)), -ENOENT);
}

TEST_F(Cache, HomeIsEnough)
{
	set_environment({ { "HOME", home_.path() } });
	EXPECT_EQ(get().cache_error, 0);
	EXPECT_EQ(get().from_cache, 1u);
	EXPECT_TRUE(fs::is_directory(home_ / ".cache/sframe"));
}

TEST_F(Cache, NoHomeMeansPrivateMemory)
{
	set_environment({});
	expect_private(-ENOENT);
}

TEST_F(Cache, SecureProcessesUseNone)
{
	set_environment({ { "XDG_CACHE_HOME", home_.path() } }, true);
	expect_private(-ENOENT);
	EXPECT_TRUE(files().empty());
}

TEST_F(Cache, SymlinkedDirectoryIsRefused)
{
	fs::create_directory(home_ / "elsewhere");
	fs::create_symlink(home_ / "elsewhere", directory());
	expect_private(-ENOTDIR);
	EXPECT_TRUE(fs::is_empty(home_ / "elsewhere"));
}

TEST_F(Cache, DirectoryThatOthersMayWriteIsRefused)
{
	fs::create_directory(directory());
	ASSERT_EQ(chmod(directory().c_str(), 0777), 0);
	expect_private(-EACCES);
	EXPECT_TRUE(files().empty());
}

TEST_F(Cache, ForeignDirectoryIsRefused)
{
	fs::create_directory(directory());
	if (chown(directory().c_str(), 65534, 65534) < 0)
		GTEST_SKIP() << "only root can give a directory away";
	expect_private(-EACCES);
	EXPECT_TRUE(files().empty());
}

TEST_F(Cache, UnwritableDirectoryIsSurvived)
{
	set_environment({ { "XDG_CACHE_HOME", "/proc" } });
	expect_private(-ENOENT);
}

TEST_F(Cache, FileInTheDirectorysPlaceIsSurvived)
{
	std::ofstream(directory()) << "not a directory";
	expect_private(-ENOTDIR);
}

TEST_F(Cache, FullDiskLeavesNothingBehind)
{
	if (mkdir(directory().c_str(), 0700) < 0 ||
	    mount("tmpfs", directory().c_str(), "tmpfs", 0, "size=64k,mode=0700") < 0)
		GTEST_SKIP() << "cannot mount a small tmpfs: " << strerror(errno);
	expect_private(-ENOSPC);
	EXPECT_TRUE(files().empty());
	umount2(directory().c_str(), MNT_DETACH);
}

TEST_F(Cache, FileSizeLimitDoesNotSignalTheProgram)
{
	struct rlimit old, small;

	ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = { 4096, old.rlim_max };
	ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
	const sframe_cached cached = get();
	setrlimit(RLIMIT_FSIZE, &old);
	EXPECT_EQ(cached.cache_error, -EFBIG);
	expect_right(cached);
	EXPECT_TRUE(files().empty());
}

TEST_F(Cache, TruncatedFileIsReplaced)
{
	get();
	const std::string path = only_file();
	fs::resize_file(path, fs::file_size(path) / 2);
	expect_replaced(path);
}

TEST_F(Cache, EmptyFileIsReplaced)
{
	get();
	const std::string path = only_file();
	fs::resize_file(path, 0);
	expect_replaced(path);
}

TEST_F(Cache, LongerFileIsReplaced)
{
	get();
	const std::string path = only_file();
	std::ofstream(path, std::ios::app) << "12345678";
	expect_replaced(path);
}

TEST_F(Cache, FileOfAnotherObjectIsReplaced)
{
	MappedFile other("/lib/x86_64-linux-gnu/libm.so.6");
	sframe_image image;

	ASSERT_TRUE(other);
	ASSERT_EQ(other.image(&image), 0);
	get();
	const std::string path = only_file();
	get(image);
	for (const std::string &name : files())
		if (name != path)
			fs::rename(name, path);
	expect_replaced(path);
}

TEST_F(Cache, SymlinkInTheFilesPlaceIsReplaced)
{
	get();
	const std::string path = only_file();
	fs::rename(path, home_ / "moved");
	fs::create_symlink(home_ / "moved", path);
	expect_replaced(path);
	EXPECT_FALSE(fs::is_symlink(path));
}

TEST_F(Cache, FileThatOthersMayWriteIsReplaced)
{
	get();
	const std::string path = only_file();
	ASSERT_EQ(chmod(path.c_str(), 0660), 0);
	expect_replaced(path);
}

TEST_F(Cache, FifoInTheFilesPlaceDoesNotBlock)
{
	get();
	const std::string path = only_file();
	fs::remove(path);
	ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
	expect_replaced(path);
}

TEST_F(Cache, DirectoryInTheFilesPlaceIsSurvived)
{
	get();
	const std::string path = only_file();
	fs::remove(path);
	fs::create_directory(path);
	expect_private(-EISDIR);
	EXPECT_EQ(files().size(), 1u);
}

TEST_F(Cache, SomebodyElsesTemporaryIsLeftAlone)
{
	get();
	const std::string path = only_file();
	const std::string temporary = path.substr(0, path.rfind('.')) + ".tmp";
	fs::remove(path);
	std::ofstream(temporary) << "being written";
	expect_private(-EEXIST);
	EXPECT_EQ(only_file(), temporary);
}

TEST_F(Cache, TemporaryOfADeadWriterIsReplaced)
{
	get();
	const std::string path = only_file();
	const std::string temporary = path.substr(0, path.rfind('.')) + ".tmp";
	fs::remove(path);
	std::ofstream(temporary) << "half";
	fs::last_write_time(temporary, fs::file_time_type::clock::now() - std::chrono::hours(1));
	expect_replaced(path);
}

TEST_F(Cache, MappedFileOutlivesItsName)
{
	const sframe_cached made = get();

	fs::remove_all(directory());
	expect_right(made);
	expect_right(get());
}

// Tools that edit linked files keep the build-id.
TEST_F(Cache, SameBuildIdElsewhereIsAnotherFile)
{
	sframe_image moved = image_;

	get();
	moved.segment[0].size -= 1;
	EXPECT_EQ(get(moved).from_cache, 0u);
	EXPECT_EQ(files().size(), 2u);
}

TEST_F(Cache, ContentsStandInForABuildId)
{
	sframe_image anonymous = image_;

	anonymous.build_id_size = 0;
	EXPECT_EQ(get(anonymous).cache_error, 0);
	EXPECT_EQ(get(anonymous).from_cache, 1u);

	// One byte of .eh_frame changed: another object.
	std::vector<unsigned char> copy;
	for (uint32_t i = 0; i < anonymous.segment_count; i++) {
		sframe_image_segment &seg = anonymous.segment[i];

		if (anonymous.eh_frame < seg.vaddr || anonymous.eh_frame >= seg.vaddr + seg.size)
			continue;
		copy.assign(seg.bytes, seg.bytes + seg.size);
		copy[anonymous.eh_frame - seg.vaddr + 40] ^= 1;
		seg.bytes = copy.data();
	}
	EXPECT_EQ(get(anonymous).from_cache, 0u);
}

// The build-id of contents that relocation changes would be another each time.
TEST_F(Cache, RelocatedContentsAreNoIdentity)
{
	sframe_image anonymous = image_;

	anonymous.build_id_size = 0;
	anonymous.relocated = 1;
	for (uint32_t i = 0; i < anonymous.segment_count; i++)
		anonymous.segment[i].flags |= PF_W;
	EXPECT_EQ(get(anonymous).cache_error, -ENOTSUP);
	EXPECT_TRUE(files().empty());
}

TEST_F(Cache, RacingProcessesAgree)
{
	int gate[2];
	std::vector<pid_t> children;

	ASSERT_EQ(pipe(gate), 0);
	for (int i = 0; i < 8; i++) {
		const pid_t pid = fork();
		if (pid == 0) {
			char go;

			close(gate[1]);
			if (read(gate[0], &go, 1) != 0)
				_exit(2);
			expect_right(get());
			_exit(HasFailure());
		}
		children.push_back(pid);
	}
	close(gate[0]);
	close(gate[1]);	// all at once
	for (const pid_t pid : children) {
		int status;

		waitpid(pid, &status, 0);
		EXPECT_EQ(status, 0);
	}
	only_file();
	EXPECT_EQ(get().from_cache, 1u);
}

TEST_F(Cache, ShortStructureIsRefused)
{
	sframe_cached cached = {};

	cached.size = sizeof(cached) - 1;
	EXPECT_EQ(sframe_cache_get(&image_, &cached), -EINVAL);
}

} // namespace
