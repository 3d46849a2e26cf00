// SPDX-License-Identifier: MIT
//
// Writing JSON, for --json.
//
// Example:
//
//	Json json(stdout);
//	json.open('{').member("rows", 12).key("files").open('[').value("a.so").close().close();
//
// prints {"rows":12,"files":["a.so"]} and a newline after the outermost value.
#pragma once

#include <cinttypes>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <vector>

class Json {
public:
	explicit Json(FILE *out) : out_(out) {}

	Json &open(char bracket)	// '{' or '['
	{
		comma();
		fputc(bracket, out_);
		levels_.push_back({ bracket == '{' ? '}' : ']', false });
		return *this;
	}

	Json &close()
	{
		fputc(levels_.back().bracket, out_);
		levels_.pop_back();
		return ended();
	}

	Json &key(std::string_view name)
	{
		comma();
		quote(name);
		fputc(':', out_);
		after_key_ = true;
		return *this;
	}

	Json &value(std::string_view text)
	{
		comma();
		quote(text);
		return ended();
	}
	Json &value(const char *text) { return value(std::string_view(text)); }

	Json &value(std::integral auto number)
	{
		comma();
		if constexpr (std::same_as<decltype(number), bool>)
			fputs(number ? "true" : "false", out_);
		else if constexpr (std::signed_integral<decltype(number)>)
			fprintf(out_, "%" PRId64, static_cast<int64_t>(number));
		else
			fprintf(out_, "%" PRIu64, static_cast<uint64_t>(number));
		return ended();
	}

	Json &value(double number)
	{
		comma();
		fprintf(out_, "%.10g", number);
		return ended();
	}

	template <typename T> Json &member(std::string_view name, const T &what)
	{
		return key(name).value(what);
	}

private:
	struct Level {
		char bracket;
		bool begun;
	};

	void comma()
	{
		if (after_key_) {
			after_key_ = false;
			return;
		}
		if (!levels_.empty() && levels_.back().begun)
			fputc(',', out_);
		if (!levels_.empty())
			levels_.back().begun = true;
	}

	Json &ended()
	{
		if (levels_.empty())
			fputc('\n', out_);
		return *this;
	}

	void quote(std::string_view text)
	{
		fputc('"', out_);
		for (const char c : text) {
			if (c == '"' || c == '\\')
				fputc('\\', out_);
			if (static_cast<unsigned char>(c) < 0x20)
				fprintf(out_, "\\u%04x", c);
			else
				fputc(c, out_);
		}
		fputc('"', out_);
	}

	FILE *out_;
	std::vector<Level> levels_;
	bool after_key_ = false;
};
