// SPDX-License-Identifier: MIT
//
// Finding an epilogue in an object's text that dlopen() can be made to return
// to, and through which unwinding is right. See preload_entry.S.
#pragma once

#include <cstdint>

namespace sframe {

struct ReturnSite {
	enum Kind : uint64_t {	// preload_entry.S knows the numbers
		kRet = 0,	// ret
		kAdd = 1,	// add $8, %rsp; ret
		kLeave = 2,	// leave; ret
	};

	uint64_t address = 0;	// 0: there is none
	Kind kind = kRet;
};

// In the object that holds @address, or in the main program if no object does
// (what glibc takes for the caller then). Best first: an epilogue behind a call
// of a function without personality, whose registered rows say what it does; a
// ret where a function has no frame yet; a ret that no CFI speaks of.
ReturnSite find_return_site(uint64_t address);

} // namespace sframe
