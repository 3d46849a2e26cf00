// SPDX-License-Identifier: MIT
//
// Encoded pointers of .eh_frame and .eh_frame_hdr (LSB, "DWARF Exception
// Header Encoding"), resolved to link-time addresses.
#pragma once

#include <cstdint>
#include <sframe/synth.h>
#include "reader.h"

namespace sframe {

enum : uint8_t {
	DW_EH_PE_absptr = 0x00,
	DW_EH_PE_uleb128 = 0x01,
	DW_EH_PE_udata2 = 0x02,
	DW_EH_PE_udata4 = 0x03,
	DW_EH_PE_udata8 = 0x04,
	DW_EH_PE_sleb128 = 0x09,
	DW_EH_PE_sdata2 = 0x0a,
	DW_EH_PE_sdata4 = 0x0b,
	DW_EH_PE_sdata8 = 0x0c,
	DW_EH_PE_pcrel = 0x10,
	DW_EH_PE_textrel = 0x20,
	DW_EH_PE_datarel = 0x30,
	DW_EH_PE_funcrel = 0x40,
	DW_EH_PE_aligned = 0x50,
	DW_EH_PE_indirect = 0x80,
	DW_EH_PE_omit = 0xff,
};

// What relative pointers count from.
struct PointerBase {
	const sframe_image *image;
	uint64_t data;		// for datarel, 0: unknown
	uint64_t text;		// for textrel, 0: unknown
};

// Reads the value of a pointer, whatever it is relative to; false if the
// encoding is unknown or the bytes end. vaddr is the address of reader.at().
bool read_pointer_value(Reader &reader, uint8_t encoding, uint64_t vaddr, uint64_t *value);

// Reads a pointer and resolves it to a link-time address.
bool read_pointer(Reader &reader, uint8_t encoding, uint64_t vaddr, const PointerBase &base,
		  uint64_t *address);

} // namespace sframe
