// SPDX-License-Identifier: MIT
#include "eh_pointer.h"

#include "image.h"

namespace sframe {

bool read_pointer_value(Reader &reader, uint8_t encoding, uint64_t vaddr, uint64_t *value)
{
	if ((encoding & 0x70) == DW_EH_PE_aligned) {
		reader.skip(-vaddr & 7);
		*value = reader.u64();
		return !reader.bad();
	}
	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		*value = reader.u64();
		break;
	case DW_EH_PE_uleb128:
		*value = reader.uleb();
		break;
	case DW_EH_PE_sleb128:
		*value = static_cast<uint64_t>(reader.sleb());
		break;
	case DW_EH_PE_udata2:
		*value = reader.u16();
		break;
	case DW_EH_PE_sdata2:
		*value = static_cast<uint64_t>(int64_t(static_cast<int16_t>(reader.u16())));
		break;
	case DW_EH_PE_udata4:
		*value = reader.u32();
		break;
	case DW_EH_PE_sdata4:
		*value = static_cast<uint64_t>(int64_t(static_cast<int32_t>(reader.u32())));
		break;
	default:
		return false;
	}
	return !reader.bad();
}

// An absolute address as it stands in the bytes. In memory the dynamic linker
// has added the load bias, unless the object was never relocated (the vDSO).
static uint64_t link_time(const sframe_image &image, uint64_t value)
{
	if (!image.relocated)
		return value;
	const uint64_t moved = value - image.load_bias;

	if (image_segment(image, moved, 1) || !image_segment(image, value, 1))
		return moved;
	return value;
}

bool read_pointer(Reader &reader, uint8_t encoding, uint64_t vaddr, const PointerBase &base,
		  uint64_t *address)
{
	uint64_t value;

	if (encoding == DW_EH_PE_omit || !read_pointer_value(reader, encoding, vaddr, &value))
		return false;
	switch (encoding & 0x70) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_aligned:
		value = link_time(*base.image, value);
		break;
	case DW_EH_PE_pcrel:
		value += vaddr;
		break;
	case DW_EH_PE_datarel:
		if (!base.data)
			return false;
		value += base.data;
		break;
	case DW_EH_PE_textrel:
		if (!base.text)
			return false;
		value += base.text;
		break;
	default:
		return false;
	}
	if (encoding & DW_EH_PE_indirect) {
		Reader slot = image_reader(*base.image, value);

		value = link_time(*base.image, slot.u64());
		if (slot.bad())
			return false;
	}
	*address = value;
	return true;
}

} // namespace sframe
