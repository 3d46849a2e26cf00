// SPDX-License-Identifier: MIT
//
// What kind of program is it? Decides before the start whether libraries can
// be preloaded into it.
#pragma once

#include <string>

namespace sframe::record {

struct Program {
	std::string path;	// empty: not found
	int error = 0;		// errno of finding or executing it
	std::string obstacle;	// why it cannot be sampled, in words; empty: it can
	// Variables for ld.so would disturb it (another loader reads them).
	bool keep_environment = false;
};

// As execvp() would find it.
Program look_at_program(const char *name);

} // namespace sframe::record
