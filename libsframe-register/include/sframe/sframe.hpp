/* SPDX-License-Identifier: MIT */
/*
 * libsframe-register for C++20: header-only, adds no ABI.
 *
 * Example: a code region of a JIT, registered as long as its handle lives.
 *
 *	#include <sframe/sframe.hpp>
 *
 *	auto code = std::span(region, region_size);
 *	auto section = std::span<const std::byte>(bytes, bytes_size);
 *	sframe::Result<sframe::Registration> reg = sframe::register_section(section, code);
 *	if (!reg)
 *		log("no stacks for this region: ", reg.message());
 *	...
 *	reg->replace(better_section);		// no moment without information
 *	...
 *	// ~Registration() unregisters; then the section may be freed.
 *
 * Nothing throws. A Result holds a value or a positive errno number.
 */
#ifndef SFRAME_SFRAME_HPP
#define SFRAME_SFRAME_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <sframe/register.h>
#include <sframe/registry.h>
#include <sframe/unwind.h>

namespace sframe {

/* An errno number, positive. */
struct Error {
	int number = 0;

	std::string message() const { return std::strerror(number); }
	friend bool operator==(const Error &, const Error &) = default;
};

/* A value or an Error: what std::expected is in C++23. */
template <typename T> class Result {
public:
	Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
	Result(Error error) : state_(std::in_place_index<1>, error) {}

	explicit operator bool() const { return state_.index() == 0; }
	bool has_value() const { return state_.index() == 0; }

	/* Only with a value. */
	T &operator*() & { return *std::get_if<0>(&state_); }
	const T &operator*() const & { return *std::get_if<0>(&state_); }
	T &&operator*() && { return std::move(*std::get_if<0>(&state_)); }
	T *operator->() { return std::get_if<0>(&state_); }
	const T *operator->() const { return std::get_if<0>(&state_); }

	/* {0} with a value. */
	Error error() const { return has_value() ? Error{} : *std::get_if<1>(&state_); }
	std::string message() const { return error().message(); }

private:
	std::variant<T, Error> state_;
};

template <> class Result<void> {
public:
	Result() = default;
	Result(Error error) : error_(error) {}

	explicit operator bool() const { return error_.number == 0; }
	bool has_value() const { return error_.number == 0; }
	Error error() const { return error_; }
	std::string message() const { return error_.message(); }

private:
	Error error_;
};

namespace detail {

inline Result<void> result(int ret)
{
	if (ret < 0)
		return Error{ -ret };
	return {};
}

template <typename T> T sized()
{
	T value = {};

	value.size = sizeof(value);
	return value;
}

} // namespace detail

/*
 * One registered range. Move-only; unregisters when it goes. Code and section
 * must live longer.
 */
class Registration {
public:
	Registration() = default;
	Registration(Registration &&other) noexcept : setup_(std::exchange(other.setup_, {})) {}
	Registration &operator=(Registration &&other) noexcept
	{
		if (this != &other) {
			reset();
			setup_ = std::exchange(other.setup_, {});
		}
		return *this;
	}
	~Registration() { reset(); }

	static Result<Registration> make(const sframe_setup &setup)
	{
		if (const int err = sframe_register(&setup, sizeof(setup)))
			return Error{ -err };
		Registration registration;
		registration.setup_ = setup;
		registration.setup_.flags &= ~SFRAME_REPLACE;
		return registration;
	}

	explicit operator bool() const { return setup_.text_size != 0; }
	const sframe_setup &setup() const { return setup_; }

	/* Another section for the same code. The old one may be freed afterwards. */
	Result<void> replace(std::span<const std::byte> section)
	{
		sframe_setup better = setup_;

		better.sframe_start = reinterpret_cast<uintptr_t>(section.data());
		better.sframe_size = section.size();
		better.flags |= SFRAME_REPLACE;
		const int err = sframe_register(&better, sizeof(better));
		if (!err) {
			better.flags &= ~SFRAME_REPLACE;
			setup_ = better;
		}
		return detail::result(err);
	}

	/* Unregister now, and learn whether it was there. */
	Result<void> reset()
	{
		if (!*this)
			return {};
		const sframe_setup setup = std::exchange(setup_, {});
		return detail::result(sframe_unregister(&setup, sizeof(setup)));
	}

	/* Leave it registered. */
	sframe_setup release() { return std::exchange(setup_, {}); }

private:
	sframe_setup setup_ = {};
};

/* Any contiguous range of trivial elements counts as code, whatever it is made of. */
template <typename T>
Result<Registration> register_section(std::span<const std::byte> section, std::span<T> code,
				      uint64_t flags = 0, uint64_t func_base = 0)
{
	return Registration::make({
		reinterpret_cast<uintptr_t>(section.data()), section.size(),
		reinterpret_cast<uintptr_t>(code.data()), code.size_bytes(), flags, func_base,
	});
}

/* A loaded ELF object, registered as long as this lives. The headers must too. */
class ObjectRegistration {
public:
	ObjectRegistration() = default;
	ObjectRegistration(ObjectRegistration &&other) noexcept
		: object_(std::exchange(other.object_, {})), result_(other.result_)
	{
	}
	ObjectRegistration &operator=(ObjectRegistration &&other) noexcept
	{
		if (this != &other) {
			reset();
			object_ = std::exchange(other.object_, {});
			result_ = other.result_;
		}
		return *this;
	}
	~ObjectRegistration() { reset(); }

	/* @path may be nullptr. */
	static Result<ObjectRegistration> make(uint64_t load_bias, std::span<const Elf64_Phdr> headers,
					       const char *path, uint32_t flags = 0)
	{
		ObjectRegistration made;
		auto object = detail::sized<sframe_object>();

		object.load_bias = load_bias;
		object.phdr = headers.data();
		object.phnum = headers.size();
		object.path = path;
		object.flags = flags;
		made.result_ = detail::sized<sframe_object_result>();
		const int n = sframe_register_object(&object, &made.result_);
		if (n < 0)
			return Error{ -n };
		made.object_ = object;
		made.object_.path = nullptr;
		return made;
	}

	const sframe_object_result &result() const { return result_; }

	Result<void> reset()
	{
		if (!object_.phdr)
			return {};
		const sframe_object object = std::exchange(object_, {});
		return detail::result(sframe_unregister_object(&object));
	}

private:
	sframe_object object_ = {};
	sframe_object_result result_ = {};
};

/* What covers @pc. Async-signal-safe. */
inline Result<sframe_range> find(uint64_t pc)
{
	auto range = detail::sized<sframe_range>();

	if (const int err = sframe_find(pc, &range))
		return Error{ -err };
	return range;
}

inline sframe_stats stats()
{
	auto stats = detail::sized<sframe_stats>();

	sframe_get_stats(&stats);
	return stats;
}

/* The path of a range's object, or "". */
inline std::string path(const sframe_range &range)
{
	std::string text(4096, '\0');
	const int n = sframe_range_path(range.id, text.data(), text.size());

	text.resize(n > 0 ? static_cast<size_t>(n) : 0);
	return text;
}

/* The calling thread's return addresses into @pcs, from the caller on. */
[[gnu::always_inline]] inline std::span<uint64_t> backtrace(std::span<uint64_t> pcs,
							     sframe_trace *trace = nullptr)
{
	return pcs.first(static_cast<size_t>(sframe_backtrace(pcs.data(), pcs.size(), trace)));
}

/* Another process's registry. */
class Peer {
public:
	struct Range {
		sframe_range range;
		std::string path;
	};

	static Result<Peer> open(int pid)
	{
		Peer peer;

		if (const int err = sframe_peer_open(&peer.peer_, pid))
			return Error{ -err };
		return peer;
	}
	Peer(Peer &&other) noexcept : peer_(std::exchange(other.peer_, nullptr)) {}
	Peer &operator=(Peer &&other) noexcept
	{
		std::swap(peer_, other.peer_);
		return *this;
	}
	~Peer() { sframe_peer_close(peer_); }

	/* The process that made the registrations; see sframe_peer_origin(). */
	int origin() const { return sframe_peer_origin(peer_); }

	/* All ranges, by address. */
	Result<std::vector<Range>> ranges() const
	{
		std::vector<Range> all;
		const int n = sframe_peer_each(peer_, [](const sframe_range *range, const char *path, void *arg) {
			static_cast<std::vector<Range> *>(arg)->push_back({ *range, path });
			return 0;
		}, &all);

		if (n < 0)
			return Error{ -n };
		return all;
	}

	struct Info {
		int backend;
		sframe_stats stats;
	};
	Result<Info> info() const
	{
		Info info = { 0, detail::sized<sframe_stats>() };

		if (const int err = sframe_peer_info(peer_, &info.backend, &info.stats))
			return Error{ -err };
		return info;
	}

private:
	Peer() = default;

	sframe_peer *peer_ = nullptr;
};

} // namespace sframe

#endif
