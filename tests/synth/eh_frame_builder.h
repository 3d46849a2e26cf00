// SPDX-License-Identifier: MIT
//
// An .eh_frame section made by hand, in an image that has a text segment of
// int3 and nothing else, and what synthesis makes of it.
//
//	EhFrameBuilder b;
//	b.fde(b.cie(), kText, 16, {0x41, 0x0e, 16});	// after 1 byte: CFA = rsp + 16
//	Section s(b.image());
//	EXPECT_EQ(s.at(kText + 1)->cfa.offset, 16);
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>
#include <elf.h>
#include <sframe/decode.h>
#include <sframe/synth.h>

using Bytes = std::vector<unsigned char>;

inline constexpr uint64_t kText = 0x10000;
inline constexpr uint64_t kTextSize = 0x100000;
inline constexpr uint64_t kEhFrame = 0x400000;

inline Bytes operator+(Bytes a, const Bytes &b)
{
	a.insert(a.end(), b.begin(), b.end());
	return a;
}

template <typename T> Bytes little(T value)
{
	Bytes out(sizeof(T));

	memcpy(out.data(), &value, sizeof(T));
	return out;
}

inline Bytes uleb(uint64_t value)
{
	Bytes out;

	do {
		out.push_back(static_cast<unsigned char>((value & 0x7f) | (value > 0x7f ? 0x80 : 0)));
		value >>= 7;
	} while (value);
	return out;
}

inline Bytes sleb(int64_t value)
{
	Bytes out;

	for (;;) {
		const unsigned char byte = value & 0x7f;

		value >>= 7;
		if ((value == 0 && !(byte & 0x40)) || (value == -1 && byte & 0x40)) {
			out.push_back(byte);
			return out;
		}
		out.push_back(byte | 0x80);
	}
}

// DW_CFA_def_cfa rsp, 8; DW_CFA_offset rip, cfa-8: how functions begin.
inline const Bytes kEntryRules = {0x0c, 7, 8, 0x90, 1};

class EhFrameBuilder {
public:
	struct CieOptions {
		std::string augmentation = "zR";
		Bytes data = {0x1b};	// DW_EH_PE_pcrel | DW_EH_PE_sdata4
		unsigned char version = 1;
		uint64_t code_align = 1;
		int64_t data_align = -8;
		bool wide = false;	// 64-bit format
		int id_size = 4;	// of the CIE id in that format
	};

	EhFrameBuilder() : text_(kTextSize, 0xcc) {}

	// Returns the offset of the CIE, for fde().
	size_t cie(const Bytes &program = kEntryRules) { return cie(program, CieOptions()); }
	size_t cie(const Bytes &program, const CieOptions &o)
	{
		Bytes body = id(0, o.wide ? o.id_size : 4);

		body.push_back(o.version);
		body.insert(body.end(), o.augmentation.begin(), o.augmentation.end());
		body.push_back(0);
		if (o.augmentation.starts_with("eh"))
			body = body + Bytes(8);
		if (o.version == 4)
			body = body + Bytes{8, 0};
		body = body + uleb(o.code_align) + sleb(o.data_align) + Bytes{16};
		if (o.augmentation.starts_with("z"))
			body = body + uleb(o.data.size()) + o.data;
		return entry(body + program, o.wide);
	}

	// pcrel sdata4 addresses; augmentation data after them if not empty.
	size_t fde(size_t cie, uint64_t start, uint32_t size, const Bytes &program,
		   const Bytes &augmentation = {0}, bool wide = false, int id_size = 4)
	{
		const size_t id_at = section_.size() + (wide ? 12 : 4);
		const size_t start_at = id_at + static_cast<size_t>(id_size);

		return entry(id(id_at - cie, id_size) +
				     little(static_cast<int32_t>(start - (kEhFrame + start_at))) +
				     little(size) + augmentation + program, wide);
	}

	// An FDE whose addresses are the given bytes.
	size_t raw_fde(size_t cie, const Bytes &addresses, const Bytes &program)
	{
		return entry(id(section_.size() + 4 - cie, 4) + addresses + Bytes{0} + program,
			     false);
	}

	size_t entry(const Bytes &body, bool wide = false)
	{
		const size_t at = section_.size();

		section_ = section_ + (wide ? little(uint32_t(0xffffffff)) + little(uint64_t(body.size())) :
					     little(static_cast<uint32_t>(body.size()))) + body;
		return at;
	}

	void terminate() { section_ = section_ + Bytes(4); }
	size_t size() const { return section_.size(); }
	Bytes &section() { return section_; }
	Bytes &text() { return text_; }

	// The builder must outlive the image.
	const sframe_image &image()
	{
		image_ = {};
		image_.eh_frame = kEhFrame;
		image_.segment_count = 2;
		image_.segment[0] = {kText, text_.size(), text_.data(), PF_R | PF_X, 0};
		image_.segment[1] = {kEhFrame, section_.size(), section_.data(), PF_R, 0};
		return image_;
	}

private:
	static Bytes id(uint64_t value, int size)
	{
		return size == 8 ? little(value) : little(static_cast<uint32_t>(value));
	}

	Bytes section_;
	Bytes text_;
	sframe_image image_ = {};
};

// A section that synthesis made, decoded at link-time addresses.
class Section {
public:
	explicit Section(const sframe_image &image)
	{
		synth_.size = sizeof(synth_);
		error_ = sframe_synthesize(&image, &synth_);
		if (!error_)
			error_ = sframe_decoder_new(&decoder_, synth_.section, synth_.section_size, 0,
						    SFRAME_DECODE_FUNC_BASE, nullptr);
	}
	Section(const Section &) = delete;
	Section &operator=(const Section &) = delete;
	~Section()
	{
		if (decoder_)
			sframe_decoder_free(decoder_);
		sframe_synth_release(&synth_);
	}

	int error() const { return error_; }
	const sframe_synth_stats &stats() const { return synth_.stats; }
	const sframe_synth &result() const { return synth_; }
	const sframe_decoder *decoder() const { return decoder_; }
	Bytes bytes() const
	{
		const unsigned char *p = static_cast<const unsigned char *>(synth_.section);

		return Bytes(p, p + synth_.section_size);
	}

	std::optional<sframe_decoded_row> at(uint64_t pc) const
	{
		sframe_decoded_row row;

		if (!decoder_ || sframe_decoder_lookup(decoder_, pc, &row))
			return std::nullopt;
		return row;
	}
	std::optional<sframe_function> function(uint32_t i) const
	{
		sframe_function fn;

		if (!decoder_ || sframe_decoder_function(decoder_, i, &fn))
			return std::nullopt;
		return fn;
	}

private:
	sframe_synth synth_ = {};
	sframe_decoder *decoder_ = nullptr;
	int error_ = 0;
};

// A rule in the notation of readelf: "sp+8", "*(c-16)", "*(r10+0)", "u".
inline std::string text_of(const sframe_decoded_rule &rule)
{
	if (rule.base == SFRAME_BASE_NONE)
		return "u";
	char text[48], base[16];

	if (rule.base == SFRAME_BASE_REG)
		snprintf(base, sizeof(base), "r%u", rule.reg);
	snprintf(text, sizeof(text), rule.deref ? "*(%s%+lld)" : "%s%+lld",
		 rule.base == SFRAME_BASE_CFA ? "c" :
		 rule.reg == 7 ? "sp" : rule.reg == 6 ? "fp" : base,
		 static_cast<long long>(rule.offset));
	return text;
}

// "CFA RA FP" of the row at pc, "outermost", or "none".
inline std::string rules_at(const Section &section, uint64_t pc)
{
	const auto row = section.at(pc);

	if (!row)
		return "none";
	if (row->outermost)
		return "outermost";
	return text_of(row->cfa) + " " + text_of(row->ra) + " " + text_of(row->fp);
}
