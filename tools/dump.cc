// SPDX-License-Identifier: MIT
//
// sframectl dump: a section in words, as an unwinder understands it.
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <getopt.h>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>
#include "command.h"
#include "section_source.h"
#include "sframe_format.h"

namespace {

const char help[] =
	"Usage: sframectl dump [OPTION...] FILE|PID:ADDRESS\n"
	"\n"
	"Show the SFrame section of an ELF file, a file that is a bare section, or the\n"
	"section at an address of a running process (`sframectl list PID` tells where).\n"
	"\n"
	"      --address A   where a bare section lies; its addresses count from there\n"
	"                    (default 0)\n"
	"      --json        for programs\n";

enum { OPTION_ADDRESS = 256, OPTION_JSON };

const option options[] = {
	{ "address", required_argument, nullptr, OPTION_ADDRESS },
	{ "json", no_argument, nullptr, OPTION_JSON },
	{ "help", no_argument, nullptr, 'h' },
	{ nullptr, 0, nullptr, 0 },
};

struct Abi {
	const char *name;
	unsigned int sp, fp, ra;	// DWARF numbers
	const char *sp_name, *fp_name, *ra_name;
};

const Abi abis[] = {
	{ "unknown", 0, 0, 0, "", "", "" },
	{ "AArch64 big-endian", SFRAME_AARCH64_REG_SP, SFRAME_AARCH64_REG_FP,
	  SFRAME_AARCH64_REG_LR, "sp", "x29", "x30" },
	{ "AArch64 little-endian", SFRAME_AARCH64_REG_SP, SFRAME_AARCH64_REG_FP,
	  SFRAME_AARCH64_REG_LR, "sp", "x29", "x30" },
	{ "AMD64 little-endian", SFRAME_AMD64_REG_SP, SFRAME_AMD64_REG_FP, SFRAME_AMD64_REG_RA,
	  "rsp", "rbp", "rip" },
	{ "s390x big-endian", SFRAME_S390X_REG_SP, SFRAME_S390X_REG_FP, SFRAME_S390X_REG_RA,
	  "r15", "r11", "r14" },
};

// A letter and a number, without the temporary that gcc 12 warns about.
std::string numbered(const char *name, unsigned int number)
{
	std::string text = name;

	return text.append(std::to_string(number));
}

std::string register_name(uint8_t abi, unsigned int reg)
{
	static const char *const amd64[] = {
		"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8",
		"r9",  "r10", "r11", "r12", "r13", "r14", "r15", "rip",
	};
	// s390x: DWARF interleaves the floating-point registers
	static const char *const s390x_fp[] = {
		"f0", "f2", "f4", "f6", "f1", "f3", "f5", "f7",
		"f8", "f10", "f12", "f14", "f9", "f11", "f13", "f15",
	};

	switch (abi) {
	case SFRAME_ABI_AMD64_ENDIAN_LITTLE:
		if (reg < sizeof(amd64) / sizeof(*amd64))
			return amd64[reg];
		break;
	case SFRAME_ABI_S390X_ENDIAN_BIG:
		if (reg < 16)
			return numbered("r", reg);
		if (reg < 32)
			return s390x_fp[reg - 16];
		break;
	default:
		if (reg < SFRAME_AARCH64_REG_SP)
			return numbered("x", reg);
		if (reg == SFRAME_AARCH64_REG_SP)
			return "sp";
		break;
	}
	return numbered("reg", reg);
}

// "rsp+16", "*(CFA-8)"; a rule that is not there leaves the value in its register.
std::string rule_text(uint8_t abi, const sframe_decoded_rule &rule, const char *in_register)
{
	if (rule.base == SFRAME_BASE_NONE)
		return in_register;
	std::string text = rule.base == SFRAME_BASE_CFA ? "CFA" : register_name(abi, rule.reg);
	if (rule.offset >= 0 && (rule.offset || rule.base == SFRAME_BASE_CFA || rule.deref))
		text += "+";
	if (rule.offset || rule.base == SFRAME_BASE_CFA || rule.deref)
		text += std::to_string(rule.offset);
	return rule.deref ? std::string("*(").append(text).append(")") : text;
}

std::string flag_names(const sframe_section_info &info, const char *before, const char *after)
{
	static const struct {
		unsigned int flag;
		const char *name;
	} flags[] = {
		{ SFRAME_F_FDE_SORTED, "FDE_SORTED" },
		{ SFRAME_F_FRAME_POINTER, "FRAME_POINTER" },
		{ SFRAME_F_FDE_FUNC_START_PCREL, "FDE_FUNC_START_PCREL" },
	};
	std::string text;

	for (const auto &f : flags)
		if (info.flags & f.flag)
			text.append(text.empty() ? "" : ", ").append(before).append(f.name).append(after);
	return text;
}

std::string json_string(const std::string &text)
{
	std::string out = "\"";
	char escape[8];

	for (const char c : text) {
		if (c == '"' || c == '\\') {
			out += '\\';
			out += c;
		} else if (static_cast<unsigned char>(c) < 0x20) {
			snprintf(escape, sizeof(escape), "\\u%04x", c);
			out += escape;
		} else {
			out += c;
		}
	}
	return out.append("\"");
}

// How a section is shown. Functions whose bytes make no sense are counted.
class Printer {
public:
	virtual ~Printer() = default;
	virtual void header(const sframe_section_info &info) = 0;
	virtual void function(uint32_t index, const sframe_function &fn, const std::string &name) = 0;
	virtual void row(const sframe_function &fn, const sframe_decoded_row &row) = 0;
	virtual void function_end(bool damaged) = 0;
	virtual void damaged(uint32_t index) = 0;
	virtual void end() = 0;
};

class TextPrinter : public Printer {
public:
	explicit TextPrinter(const SectionSource &source) : source_(source) {}

	void header(const sframe_section_info &info) override
	{
		const std::string flags = flag_names(info, "", "");

		abi_ = info.abi;
		printf("SFrame section at 0x%lx, %zu bytes\n", source_.address(),
		       source_.bytes().size());
		printf("  version %u, %s, flags: %s\n", info.version, abis[abi_].name,
		       flags.empty() ? "none" : flags.c_str());
		if (source_.func_base())
			printf("  function offsets count from 0x%lx\n", *source_.func_base());
		if (info.fixed_ra)
			printf("  RA always at CFA%+d\n", info.fixed_ra);
		if (info.fixed_fp)
			printf("  FP always at CFA%+d\n", info.fixed_fp);
		if (info.auxhdr_len)
			printf("  auxiliary header of %u bytes\n", info.auxhdr_len);
		printf("  %u functions, %u rows in %u bytes\n", info.num_fdes, info.num_fres,
		       info.fre_len);
	}

	void function(uint32_t index, const sframe_function &fn, const std::string &name) override
	{
		printf("\n[%u] 0x%lx to 0x%lx%s%s", index, fn.start, fn.start + fn.size,
		       name.empty() ? "" : " ", name.c_str());
		if (fn.type)
			printf(", flexible");
		if (fn.signal)
			printf(", signal frame");
		if (fn.pctype)
			printf(", repeating every %u bytes", fn.rep_size);
		if (fn.pauth_key)
			printf(", pointer authentication key B");
		putchar('\n');
	}

	void row(const sframe_function &fn, const sframe_decoded_row &row) override
	{
		const Abi &abi = abis[abi_];

		if (fn.pctype)
			printf("  +0x%-14x  ", row.start);
		else
			printf("  0x%-15lx  ", fn.start + row.start);
		if (row.outermost) {
			puts("outermost: no caller");
			return;
		}
		printf("CFA=%-14s RA=%-12s FP=%s%s\n",
		       rule_text(abi_, row.cfa, "").c_str(),
		       rule_text(abi_, row.ra, abi.ra_name).c_str(),
		       rule_text(abi_, row.fp, abi.fp_name).c_str(),
		       row.mangled_ra ? "  RA signed" : "");
	}

	void function_end(bool damaged) override
	{
		if (damaged)
			puts("  (the further rows are damaged)");
	}

	void damaged(uint32_t index) override { printf("\n[%u] damaged entry\n", index); }
	void end() override {}

private:
	const SectionSource &source_;
	uint8_t abi_ = 0;
};

class JsonPrinter : public Printer {
public:
	explicit JsonPrinter(const SectionSource &source) : source_(source) {}

	void header(const sframe_section_info &info) override
	{
		abi_ = info.abi;
		printf("{\"address\": %lu, \"size\": %zu, ", source_.address(),
		       source_.bytes().size());
		if (source_.func_base())
			printf("\"func_base\": %lu, ", *source_.func_base());
		printf("\"version\": %u, \"abi\": %s, \"flags\": [%s], \"fixed_ra\": %d, "
		       "\"fixed_fp\": %d, \"num_fdes\": %u, \"num_fres\": %u, \"fre_len\": %u,\n"
		       " \"functions\": [", info.version, json_string(abis[abi_].name).c_str(),
		       flag_names(info, "\"", "\"").c_str(), info.fixed_ra, info.fixed_fp,
		       info.num_fdes, info.num_fres, info.fre_len);
	}

	void function(uint32_t index, const sframe_function &fn, const std::string &name) override
	{
		printf("%s\n  {\"index\": %u, \"start\": %lu, \"size\": %u, ", functions_++ ? "," : "",
		       index, fn.start, fn.size);
		if (!name.empty())
			printf("\"name\": %s, ", json_string(name).c_str());
		printf("\"flexible\": %s, \"signal\": %s, \"repeat\": %u, \"pauth_key\": \"%c\", "
		       "\"rows\": [", fn.type ? "true" : "false", fn.signal ? "true" : "false",
		       fn.pctype ? fn.rep_size : 0, fn.pauth_key ? 'B' : 'A');
		rows_ = 0;
	}

	void row(const sframe_function &, const sframe_decoded_row &row) override
	{
		const Abi &abi = abis[abi_];

		printf("%s\n   {\"start\": %u, \"end\": %u, ", rows_++ ? "," : "", row.start, row.end);
		if (row.outermost) {
			printf("\"outermost\": true}");
			return;
		}
		printf("\"cfa\": \"%s\", \"ra\": \"%s\", \"fp\": \"%s\"%s}",
		       rule_text(abi_, row.cfa, "").c_str(),
		       rule_text(abi_, row.ra, abi.ra_name).c_str(),
		       rule_text(abi_, row.fp, abi.fp_name).c_str(),
		       row.mangled_ra ? ", \"ra_signed\": true" : "");
	}

	void function_end(bool damaged) override
	{
		printf("]%s}", damaged ? ", \"damaged\": true" : "");
	}

	void damaged(uint32_t index) override
	{
		printf("%s\n  {\"index\": %u, \"damaged\": true}", functions_++ ? "," : "", index);
	}

	void end() override { puts("]}"); }

private:
	const SectionSource &source_;
	uint8_t abi_ = 0;
	uint64_t functions_ = 0, rows_ = 0;
};

// Returns the number of damaged functions.
uint64_t print_section(const sframe_decoder *dec, const SymbolTable *symbols, Printer &out)
{
	sframe_section_info info;
	sframe_function fn;
	sframe_decoded_row row;
	uint64_t damaged = 0;

	sframe_decoder_info(dec, &info);
	out.header(info);
	for (uint32_t i = 0; i < info.num_fdes; i++) {
		if (sframe_decoder_function(dec, i, &fn)) {
			out.damaged(i);
			damaged++;
			continue;
		}
		const auto *symbol = symbols ? symbols->find(fn.start) : nullptr;
		uint64_t cursor = 0;
		int more;

		out.function(i, fn, symbol ? demangle(symbol->name) : "");
		while ((more = sframe_decoder_row(dec, &fn, &cursor, &row)) == 1)
			out.row(fn, row);
		out.function_end(more < 0);
		damaged += more < 0;
	}
	out.end();
	return damaged;
}

bool parse_number(const char *text, int base, uint64_t *value, char stop = 0)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, base);
	return !errno && end != text && *text != '-' && *text != '+' && *end == stop;
}

// PID:ADDRESS, the address in hexadecimal; not a file of that name.
bool parse_process(const char *text, uint64_t *pid, uint64_t *address)
{
	const char *colon = strchr(text, ':');

	return colon && access(text, F_OK) && parse_number(text, 10, pid, ':') &&
	       *pid <= INT32_MAX && parse_number(colon + 1, 16, address);
}

int dump(const char *what, uint64_t bare_address, bool json)
{
	SectionSource source;
	std::string why;
	uint64_t pid, address;
	const bool found = parse_process(what, &pid, &address) ?
				   source.from_process(static_cast<pid_t>(pid), address, &why) :
				   source.from_file(what, bare_address, &why);

	if (!found)
		return complain("%s", why.c_str());
	const std::unique_ptr<sframe_decoder, decltype(&sframe_decoder_free)> dec(
		source.decoder(&why), sframe_decoder_free);
	if (!dec)
		return complain("%s", why.c_str());
	std::unique_ptr<SymbolTable> symbols;
	if (source.elf() && !source.relocatable())
		symbols = std::make_unique<SymbolTable>(*source.elf());
	std::unique_ptr<Printer> printer;
	if (json)
		printer = std::make_unique<JsonPrinter>(source);
	else
		printer = std::make_unique<TextPrinter>(source);
	const uint64_t damaged = print_section(dec.get(), symbols.get(), *printer);
	if (!damaged)
		return EXIT_OK;
	complain("%s: %" PRIu64 " functions of its SFrame section are damaged; "
		 "an unwinder skips them", what, damaged);
	return EXIT_FOUND;
}

int wrong(const std::string &text)
{
	complain("%s; `sframectl dump --help` lists the options", text.c_str());
	return EXIT_USAGE;
}

} // namespace

int dump_main(int argc, char **argv)
{
	uint64_t bare_address = 0;
	bool json = false;

	optind = 0;
	for (int c; (c = getopt_long(argc, argv, ":h", options, nullptr)) != -1;)
		switch (c) {
		case OPTION_ADDRESS:
			if (!parse_number(optarg, 0, &bare_address))
				return wrong(std::string("'") + optarg + "' is no address");
			break;
		case OPTION_JSON:
			json = true;
			break;
		case 'h':
			fputs(help, stdout);
			return EXIT_OK;
		case ':':
			return wrong(std::string("option '") + argv[optind - 1] + "' needs a value");
		default:
			return wrong(std::string("no option '") + argv[optind - 1] + "'");
		}
	if (argc - optind != 1)
		return wrong("name one file or PID:ADDRESS");
	return dump(argv[optind], bare_address, json);
}
