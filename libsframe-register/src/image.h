// SPDX-License-Identifier: MIT
//
// Reading an object's bytes by link-time address. See <sframe/synth.h> for
// struct sframe_image.
#pragma once

#include <cstdint>
#include <sframe/synth.h>
#include "reader.h"

namespace sframe {

// The segment that holds [vaddr, vaddr + size), or nullptr.
const sframe_image_segment *image_segment(const sframe_image &image, uint64_t vaddr,
					  uint64_t size);

// Bytes from vaddr to the end of its segment; empty if there are none to read.
Reader image_reader(const sframe_image &image, uint64_t vaddr);

// True if [vaddr, vaddr + size) is text.
bool image_is_text(const sframe_image &image, uint64_t vaddr, uint64_t size);

} // namespace sframe
