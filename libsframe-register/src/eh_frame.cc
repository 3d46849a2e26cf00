// SPDX-License-Identifier: MIT
#include "eh_frame.h"

#include "image.h"

namespace sframe {

// How many FDEs .eh_frame_hdr's search table has, or 0 if it has none.
static uint64_t count_in_header(const sframe_image &image, const PointerBase &base)
{
	Reader hdr = image.eh_frame_hdr ? image_reader(image, image.eh_frame_hdr) : Reader();
	const unsigned char *start = hdr.at();
	uint64_t value;

	if (hdr.u8() != 1)
		return 0;
	const uint8_t pointer = hdr.u8(), count = hdr.u8();

	hdr.u8();
	PointerBase hdr_base = base;
	hdr_base.data = image.eh_frame_hdr;
	auto vaddr = [&] { return image.eh_frame_hdr + static_cast<uint64_t>(hdr.at() - start); };
	if (!read_pointer(hdr, pointer, vaddr(), hdr_base, &value) || count == DW_EH_PE_omit ||
	    !read_pointer_value(hdr, count, vaddr(), &value))
		return 0;
	return value;
}

EhFrame::EhFrame(const sframe_image &image, Meter &meter)
	: base_{&image, 0, 0}, vaddr_(image.eh_frame), cies_(meter)
{
	Reader whole = image.eh_frame ? image_reader(image, image.eh_frame) : Reader();

	bytes_ = whole.at();
	size_ = whole.left();
	if (image.eh_frame_size && image.eh_frame_size < size_)
		size_ = image.eh_frame_size;
	// Offsets are kept in 32 bits.
	if (size_ > UINT32_MAX)
		size_ = UINT32_MAX;
	expected_fdes_ = count_in_header(image, base_);
}

// Finds the next entry's bounds; false at the end.
bool EhFrame::next_head(Head *head)
{
	while (position_ < size_) {
		Reader r(bytes_ + position_, size_ - position_);
		uint64_t length = r.u32();

		head->start = position_;
		head->extended = length == 0xffffffff;
		if (head->extended)
			length = r.u64();
		if (r.bad())
			return false;
		if (length == 0) {
			position_ = static_cast<uint64_t>(r.at() - bytes_);
			// A terminator may stand in the middle, from an object that
			// was linked in front of others; the header knows.
			if (seen_fdes_ < expected_fdes_)
				continue;
			return false;
		}
		if (length > r.left())
			return false;
		head->id_at = static_cast<uint64_t>(r.at() - bytes_);
		head->end = head->id_at + length;
		position_ = head->end;
		return true;
	}
	return false;
}

Entry EhFrame::next(Fde *fde)
{
	Head head;

	if (!next_head(&head)) {
		// Whatever follows is not ours: no entry is read twice.
		size_ = position_;
		return Entry::kEnd;
	}
	Reader r(bytes_ + head.id_at, head.end - head.id_at);
	const uint32_t id = r.u32();

	if (!r.bad() && id == 0)
		return cies_.push(read_cie(head)) ? Entry::kCie : Entry::kNoMemory;
	seen_fdes_++;
	return !r.bad() && read_fde(head, id, fde) ? Entry::kFde : Entry::kBadFde;
}

Cie EhFrame::read_cie(const Head &head) const
{
	Cie cie = {};
	Reader r(bytes_ + head.id_at, head.end - head.id_at);

	cie.offset = static_cast<uint32_t>(head.start);
	r.skip(4);
	// 64-bit entries have a 4-byte id by the book and an 8-byte one by habit;
	// a version of zero gives the latter away.
	if (head.extended && r.left() > 4 && *r.at() == 0) {
		cie.wide_id = true;
		r.skip(4);
	}
	const uint8_t version = r.u8();

	if (version != 1 && version != 3 && version != 4)
		return cie;
	const char *letters = r.string();

	if (!letters)
		return cie;
	if (letters[0] == 'e' && letters[1] == 'h') {
		r.skip(8);
		letters += 2;
	}
	if (version == 4 && (r.u8() != 8 || r.u8() != 0))
		return cie;
	cie.code_align = r.uleb();
	cie.data_align = r.sleb();
	cie.ra_register = version == 1 ? r.u8() : r.uleb();
	if (!read_augmentation(r, letters, &cie))
		return cie;
	cie.program_size = r.left();
	cie.program = r.skip(r.left());
	cie.valid = !r.bad();
	return cie;
}

bool EhFrame::read_augmentation(Reader &body, const char *letters, Cie *cie) const
{
	if (!*letters)
		return true;
	if (*letters != 'z')
		return false;
	const uint64_t size = body.uleb();
	const unsigned char *start = body.skip(size);

	if (!start)
		return false;
	Reader data(start, size);

	cie->sized = true;
	while (*++letters) {
		uint64_t ignored;

		switch (*letters) {
		case 'R':
			cie->fde_encoding = data.u8();
			break;
		case 'L':
			data.u8();
			break;
		case 'P': {
			const uint8_t encoding = data.u8();

			if (encoding != DW_EH_PE_omit &&
			    !read_pointer_value(data, encoding, vaddr_of(data.at()), &ignored))
				return false;
			break;
		}
		case 'S':
			cie->signal = true;
			break;
		default:
			return false;
		}
	}
	return !data.bad();
}

int64_t EhFrame::find_cie(uint64_t offset) const
{
	size_t lo = 0, hi = cies_.size();

	if (last_cie_ < cies_.size() && cies_[last_cie_].offset == offset)
		return static_cast<int64_t>(last_cie_);
	while (lo < hi) {
		const size_t mid = lo + (hi - lo) / 2;

		if (cies_[mid].offset <= offset)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && cies_[lo - 1].offset == offset ? static_cast<int64_t>(lo - 1) : -1;
}

bool EhFrame::read_fde(const Head &head, uint32_t id, Fde *fde)
{
	const int64_t index = find_cie(head.id_at - id);

	if (id > head.id_at || index < 0)
		return false;
	last_cie_ = static_cast<size_t>(index);
	const Cie &cie = cies_[last_cie_];

	if (!cie.valid)
		return false;
	Reader r(bytes_ + head.id_at, head.end - head.id_at);

	r.skip(head.extended && cie.wide_id ? 8 : 4);
	if (!read_pointer(r, cie.fde_encoding, vaddr_of(r.at()), base_, &fde->start) ||
	    !read_pointer_value(r, cie.fde_encoding & 0x0f, vaddr_of(r.at()), &fde->size))
		return false;
	if (cie.sized)
		r.skip(r.uleb());
	fde->cie = static_cast<uint32_t>(index);
	fde->offset = static_cast<uint32_t>(head.start);
	fde->program_vaddr = vaddr_of(r.at());
	fde->program_size = r.left();
	fde->program = r.skip(r.left());
	return !r.bad();
}

} // namespace sframe
