// SPDX-License-Identifier: MIT
//
// Where registrations go besides the index.
#pragma once

#include <cstdint>
#include <sframe/abi.h>
#include <sframe/register.h>
#include "registry_state.h"

namespace sframe {

// enum sframe_backend, chosen if none is yet; -ENOSYS: the kernel was asked for
// and has no such calls.
int backend_in_use(Control *c);

// The system calls of the kernel backend: 0 or -errno.
int kernel_register(const Control *c, const sframe_setup &setup);
int kernel_unregister(const Control *c, const sframe_setup &setup);

} // namespace sframe
