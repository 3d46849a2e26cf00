// SPDX-License-Identifier: MIT
//
// A profile, for people and for programs.
#pragma once

#include <string>
#include "profile.h"

namespace sframe::record {

// Figures, as one JSON object.
std::string report_json(const Profile &profile);

} // namespace sframe::record
