// SPDX-License-Identifier: MIT
//
// A file of the system as an image, for tests and benchmarks.
#pragma once

#include <cstddef>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <sframe/synth.h>

class MappedFile {
public:
	explicit MappedFile(const char *path)
	{
		struct stat st;
		const int fd = open(path, O_RDONLY | O_CLOEXEC);

		if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0) {
			void *at = mmap(nullptr, static_cast<size_t>(st.st_size),
					PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

			if (at != MAP_FAILED) {
				bytes_ = static_cast<unsigned char *>(at);
				size_ = static_cast<size_t>(st.st_size);
			}
		}
		if (fd >= 0)
			close(fd);
	}
	MappedFile(const MappedFile &) = delete;
	MappedFile &operator=(const MappedFile &) = delete;
	~MappedFile()
	{
		if (bytes_)
			munmap(bytes_, size_);
	}

	explicit operator bool() const { return bytes_; }
	// Private to this process: a test may change them.
	unsigned char *bytes() { return bytes_; }
	size_t size() const { return size_; }
	int image(sframe_image *image) const { return sframe_image_from_file(image, bytes_, size_); }

private:
	unsigned char *bytes_ = nullptr;
	size_t size_ = 0;
};
