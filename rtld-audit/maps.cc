// SPDX-License-Identifier: MIT
#include "maps.h"

#include <cerrno>
#include <fcntl.h>
#include "sys.h"

namespace sframe {

MapsReader::MapsReader()
    : fd_(static_cast<int>(sys::call(__NR_openat, AT_FDCWD, sys::arg("/proc/self/maps"),
				     O_RDONLY | O_CLOEXEC)))
{
}

MapsReader::~MapsReader()
{
	if (fd_ >= 0)
		sys::call(__NR_close, fd_);
}

int MapsReader::get()
{
	if (at_ == have_) {
		long n;

		do
			n = sys::call(__NR_read, fd_, sys::arg(buffer_), sizeof(buffer_));
		while (n == -EINTR);
		if (n <= 0)
			return -1;
		at_ = 0;
		have_ = static_cast<size_t>(n);
	}
	return static_cast<unsigned char>(buffer_[at_++]);
}

uint64_t MapsReader::number(int base, int *stop)
{
	uint64_t value = 0;
	int c;

	while ((c = get()) >= 0) {
		const int digit = c >= '0' && c <= '9' ? c - '0' :
				  base == 16 && c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
		if (digit < 0)
			break;
		value = value * static_cast<unsigned>(base) + static_cast<unsigned>(digit);
	}
	*stop = c;
	return value;
}

// "start-end rwxp offset major:minor inode   path\n"
bool MapsReader::next(Mapping *mapping)
{
	int c;

	if (fd_ < 0)
		return false;
	mapping->start = number(16, &c);
	if (c != '-')
		return false;
	mapping->end = number(16, &c);
	get();	// r
	get();	// w
	mapping->executable = get() == 'x';
	get();	// p
	get();
	mapping->offset = number(16, &c);
	mapping->major = static_cast<uint32_t>(number(16, &c));
	mapping->minor = static_cast<uint32_t>(number(16, &c));
	mapping->inode = number(10, &c);
	while (c >= 0 && c != '\n')
		c = get();
	return true;
}

} // namespace sframe
