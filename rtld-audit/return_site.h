// SPDX-License-Identifier: MIT
//
// Finding a `ret` instruction in an object's text through which unwinding is
// right. See preload_entry.S for what it is good for.
#pragma once

#include <cstdint>

namespace sframe {

// How well a stack can be unwound while the address is a return address on it.
enum class ReturnSite {
	kNone,
	kCovered,	// its CFI says what holds at a ret: CFA is rsp+8, no personality
	kUncovered,	// executable bytes that no CFI describes
};

// In the object that holds @address, or in the main program if no object does
// (what glibc takes for the caller then).
ReturnSite find_return_site(uint64_t address, uint64_t *site);

} // namespace sframe
