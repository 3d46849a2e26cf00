// SPDX-License-Identifier: MIT
#include "symbolize.h"

#include <cstdio>
#include <cstring>
#include <sframe/register.h>

namespace sframe::record {

namespace {

std::string last_component(const std::string &path)
{
	const size_t slash = path.rfind('/');
	return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string hex(uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(value));
	return text;
}

Origin origin_of(const Object &object)
{
	switch (object.source) {
	case SFRAME_SOURCE_SYNTHESIZED:
		return Origin::SYNTHESIZED;
	case SFRAME_SOURCE_JIT:
		return Origin::JIT;
	default:
		return Origin::NATIVE;
	}
}

bool is_vdso(const std::string &path)
{
	return path.find("vdso") != std::string::npos && path.find('/') == std::string::npos;
}

// Where functions begin, by the search table of .eh_frame_hdr: the only
// pointer encodings that linkers write there are 4 bytes relative to it.
class FunctionStarts {
public:
	explicit FunctionStarts(const ElfFile &file)
	{
		for (const GElf_Phdr &ph : file.program_headers())
			if (ph.p_type == PT_GNU_EH_FRAME)
				read(file.at(ph.p_vaddr, ph.p_memsz), ph.p_vaddr);
	}

	// The greatest start up to @address; 0: none.
	uint64_t find(uint64_t address) const
	{
		const auto it = std::upper_bound(starts_.begin(), starts_.end(), address);
		return it == starts_.begin() ? 0 : *(it - 1);
	}

private:
	void read(Bytes bytes, uint64_t base)
	{
		constexpr unsigned char PCREL_S4 = 0x1b, UDATA4 = 0x03, DATAREL_S4 = 0x3b;
		constexpr size_t HEADER = 12, ENTRY = 8;
		uint32_t count;

		if (bytes.size() < HEADER || bytes[0] != 1 || bytes[1] != PCREL_S4 || bytes[2] != UDATA4 ||
		    bytes[3] != DATAREL_S4)
			return;
		memcpy(&count, &bytes[8], sizeof(count));
		const size_t entries = std::min<size_t>(count, (bytes.size() - HEADER) / ENTRY);
		for (size_t i = 0; i < entries; i++) {
			int32_t offset;
			memcpy(&offset, &bytes[HEADER + i * ENTRY], sizeof(offset));
			starts_.push_back(base + offset);
		}
		std::sort(starts_.begin(), starts_.end());
	}

	std::vector<uint64_t> starts_;
};

} // namespace

struct Symbolizer::File {
	explicit File(std::unique_ptr<ElfFile> f) : elf(std::move(f)), symbols(*elf), starts(*elf) {}

	std::unique_ptr<ElfFile> elf;
	SymbolTable symbols;
	FunctionStarts starts;
};

const char *origin_name(Origin origin)
{
	switch (origin) {
	case Origin::NATIVE:
		return "native";
	case Origin::SYNTHESIZED:
		return "synthesized";
	case Origin::JIT:
		return "jit";
	case Origin::UNCOVERED:
		return "uncovered";
	}
	return "";
}

Symbolizer::Symbolizer(const Profile &profile) : profile_(profile) {}
Symbolizer::~Symbolizer() = default;

// The file of an object, opened once; nullptr if it cannot be used.
Symbolizer::File *Symbolizer::file_of(uint32_t number)
{
	const Object &object = profile_.objects[number];
	const auto [it, fresh] = files_.try_emplace({ object.path, object.build_id });
	if (!fresh)
		return it->second.get();

	std::string why;
	std::unique_ptr<ElfFile> elf;
	if (is_vdso(object.path))
		elf = ElfFile::vdso(0, &why);
	else if (!object.path.empty())
		elf = ElfFile::open(object.path, &why);
	else
		why = "an object without a path: its functions are shown by address";
	if (!elf) {
		complaints_.push_back(why);
		return nullptr;
	}
	const Bytes id = elf->build_id();
	const size_t n = std::min(id.size(), object.build_id.size());
	if (!object.build_id.empty() && (n == 0 || memcmp(id.data(), object.build_id.data(), n))) {
		complaints_.push_back(object.path +
				      ": changed since it was recorded (another build-id): its functions "
				      "are shown by address");
		return nullptr;
	}
	it->second = std::make_unique<File>(std::move(elf));
	return it->second.get();
}

std::string Symbolizer::name_at(const Object &object, File *file, uint64_t address)
{
	if (file) {
		if (const SymbolTable::Symbol *symbol = file->symbols.find(address))
			return demangle(symbol->name);
		if (const uint64_t start = file->starts.find(address))
			address = start;
	}
	return last_component(object.path) + "+" + hex(address);
}

uint32_t Symbolizer::intern(Function &&function)
{
	const auto [it, fresh] = numbers_.try_emplace(function, static_cast<uint32_t>(functions_.size()));
	if (fresh)
		functions_.push_back(std::move(function));
	return it->second;
}

uint32_t Symbolizer::function_of(const Frame &frame, bool exact)
{
	const uint64_t pc = frame.pc - (exact ? 0 : 1);
	const auto [it, fresh] = known_.try_emplace({ frame.object, pc });
	if (!fresh)
		return it->second;
	if (frame.object == NO_OBJECT)
		return it->second = intern({ "[unknown]", "", Origin::UNCOVERED, false });

	const Object &object = profile_.objects[frame.object];
	const std::string name = last_component(object.path);
	return it->second = intern({ name_at(object, file_of(frame.object), pc - object.load_bias), name,
				     origin_of(object), name == "libsframe-sampler.so" });
}

std::string Symbolizer::describe(const Frame &frame, bool exact)
{
	if (frame.object == NO_OBJECT)
		return "[unknown]";
	const Object &object = profile_.objects[frame.object];
	const uint64_t address = frame.pc - object.load_bias;
	File *const file = file_of(frame.object);
	const uint64_t lookup = address - (exact ? 0 : 1);
	if (file)
		if (const SymbolTable::Symbol *symbol = file->symbols.find(lookup))
			return demangle(symbol->name) + "+" + hex(address - symbol->start);
	return last_component(object.path) + "+" + hex(address);
}

std::string Symbolizer::path_of(const Frame &frame) const
{
	const std::string path = frame.object == NO_OBJECT ? "" : profile_.objects[frame.object].path;
	return path.empty() ? "[unknown]" : path;
}

} // namespace sframe::record
