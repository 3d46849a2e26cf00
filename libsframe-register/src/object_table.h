// SPDX-License-Identifier: MIT
//
// Which objects this copy of the library registered, and what it holds for
// them. An object is known by its mapping (load bias and text), never by its
// name: a library that is loaded again is another object.
#pragma once

#include <sframe/register.h>
#include <sframe/synth.h>

namespace sframe {

struct ObjectKey {
	uint64_t load_bias;
	uint64_t text_start;	// first byte of the first executable segment
	uint64_t text_end;	// behind the last one
};

struct ObjectRecord {
	ObjectKey key;
	uint64_t sframe_start;	// what was registered
	sframe_cached made;	// of a synthesized section
	void *private_copy;	// for kernels without SFRAME_FUNC_BASE
	size_t private_size;
};

ObjectKey object_key(const sframe_object &object);

// All of these are thread-safe and hold no lock when they return.
bool object_known(const ObjectKey &key);
// 0 or -ENOMEM; -EEXIST if the key is there.
int object_remember(const ObjectRecord &record);
// Take the record out of the table: 0 or -ENOENT.
int object_forget(const ObjectKey &key, ObjectRecord *record);

// sframe_unregister_object() for an object whose headers are gone already.
int object_drop(const ObjectKey &key);

// Unmap what a record holds.
void object_release(ObjectRecord &record);

} // namespace sframe
