// SPDX-License-Identifier: MIT
//
// `sframectl list`: what a live process has registered, or who has registered
// anything at all. The library does the reading (sframe_peer_*): the other
// process is not trusted, and may be writing at the moment.
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <getopt.h>
#include <string>
#include <unistd.h>
#include <vector>

#include <sframe/register.h>
#include <sframe/registry.h>

#include "command.h"
#include "json.h"

namespace {

constexpr char help[] =
	"Usage: sframectl list [--json] [PID]\n\n"
	"Shows the text ranges that process PID has registered, the backend it uses and\n"
	"its statistics; without PID, which processes have a registry.\n\n"
	"  --json   the same as JSON\n";

struct Entry {
	sframe_range range;
	std::string path;
};

struct Registry {
	std::vector<Entry> entries;
	int backend = 0, origin = 0;
	sframe_stats stats = {};
};

const char *source_name(uint32_t source)
{
	static const char *const names[] = { "unknown", "native", "synthesized", "jit" };

	return source < SFRAME_SOURCE_COUNT ? names[source] : "?";
}

const char *backend_name(int backend)
{
	static const char *const names[] = { "auto", "none", "shm", "kernel" };

	return backend >= 0 && backend <= SFRAME_BACKEND_KERNEL ? names[backend] : "unavailable";
}

struct StatName {
	const char *name;
	uint64_t sframe_stats::*value;
};

constexpr StatName stat_names[] = {
	{ "registered", &sframe_stats::registered },
	{ "unregistered", &sframe_stats::unregistered },
	{ "live", &sframe_stats::live },
	{ "objects_native", &sframe_stats::objects_native },
	{ "objects_synthesized", &sframe_stats::objects_synthesized },
	{ "objects_refused", &sframe_stats::objects_refused },
	{ "cache_hits", &sframe_stats::cache_hits },
	{ "cache_misses", &sframe_stats::cache_misses },
	{ "cache_errors", &sframe_stats::cache_errors },
	{ "synth_uncovered", &sframe_stats::synth_uncovered },
	{ "lookup_retries", &sframe_stats::lookup_retries },
	{ "lookup_failures", &sframe_stats::lookup_failures },
	{ "export_errors", &sframe_stats::export_errors },
};

std::string build_id_text(const sframe_range &range)
{
	std::string text;
	char hex[3];

	for (uint32_t i = 0; i < range.build_id_size && i < sizeof(range.build_id); i++) {
		snprintf(hex, sizeof(hex), "%02x", range.build_id[i]);
		text += hex;
	}
	return text;
}

// A path may hold anything; a terminal must not obey it.
std::string printable(const std::string &path)
{
	std::string text;
	char octal[5];

	for (const char c : path)
		if (static_cast<unsigned char>(c) >= ' ' && c != 0x7f) {
			text += c;
		} else {
			snprintf(octal, sizeof(octal), "\\%03o", static_cast<unsigned char>(c));
			text += octal;
		}
	return text;
}

int read_registry(int pid, Registry *out)
{
	sframe_peer *peer;
	int err = sframe_peer_open(&peer, pid);

	if (err)
		return err;
	out->origin = sframe_peer_origin(peer);
	out->stats.size = sizeof(out->stats);
	err = sframe_peer_info(peer, &out->backend, &out->stats);
	if (!err)
		err = sframe_peer_each(peer, [](const sframe_range *range, const char *path, void *arg) {
			static_cast<std::vector<Entry> *>(arg)->push_back({ *range, path });
			return 0;
		}, &out->entries);
	sframe_peer_close(peer);
	return err < 0 ? err : 0;
}

int complain_about(int pid, int err)
{
	switch (err) {
	case -ESRCH:
		return complain("list: no process %d", pid);
	case -ENOENT:
		return complain("list: process %d has no registry; start it with `sframectl run`", pid);
	case -EACCES:
	case -EPERM:
		return complain("list: not permitted to look at process %d; try as its user or as root",
				pid);
	case -EBADMSG:
		return complain("list: the registry of process %d makes no sense to this version", pid);
	case -EBUSY:
		return complain("list: process %d changes its registry too fast; try again", pid);
	default:
		return complain("list: process %d: %s", pid, strerror(-err));
	}
}

void print_text(int pid, const Registry &registry)
{
	printf("%-33s %-11s V %9s  %-40s %s\n", "RANGE", "SOURCE", "SIZE", "BUILD-ID", "OBJECT");
	for (const Entry &e : registry.entries) {
		const std::string id = build_id_text(e.range);

		printf("%016lx-%016lx %-11s %u %9lu  %-40s %s\n",
		       static_cast<unsigned long>(e.range.text_start),
		       static_cast<unsigned long>(e.range.text_end), source_name(e.range.source),
		       e.range.version, static_cast<unsigned long>(e.range.sframe_size),
		       id.empty() ? "-" : id.c_str(), e.path.empty() ? "-" : printable(e.path).c_str());
	}
	printf("\n%zu ranges; backend %s", registry.entries.size(), backend_name(registry.backend));
	if (registry.origin != pid)
		printf("; inherited from process %d by fork", registry.origin);
	putchar('\n');
	for (const StatName &s : stat_names)
		if (registry.stats.*s.value)
			printf("%-20s %lu\n", s.name, static_cast<unsigned long>(registry.stats.*s.value));
}

void print_json(int pid, const Registry &registry)
{
	Json json(stdout);
	char address[24];
	auto hex = [&](uint64_t value) {
		snprintf(address, sizeof(address), "0x%lx", static_cast<unsigned long>(value));
		return static_cast<const char *>(address);
	};

	json.open('{').member("pid", pid).member("backend", backend_name(registry.backend));
	json.member("inherited_from", registry.origin == pid ? 0 : registry.origin);
	json.key("ranges").open('[');
	for (const Entry &e : registry.entries) {
		json.open('{');
		json.member("start", hex(e.range.text_start)).member("end", hex(e.range.text_end));
		json.member("source", source_name(e.range.source));
		json.member("version", e.range.version).member("size", e.range.sframe_size);
		json.member("section", hex(e.range.sframe_start));
		json.member("load_bias", hex(e.range.load_bias)).member("id", e.range.id);
		json.member("build_id", build_id_text(e.range)).member("object", e.path);
		json.close();
	}
	json.close().key("stats").open('{');
	for (const StatName &s : stat_names)
		json.member(s.name, registry.stats.*s.value);
	json.close().close();
}

int list_one(int pid, bool as_json)
{
	Registry registry;
	const int err = read_registry(pid, &registry);

	if (err)
		return complain_about(pid, err);
	if (as_json)
		print_json(pid, registry);
	else
		print_text(pid, registry);
	return EXIT_OK;
}

bool parse_pid(const char *text, int *pid)
{
	const char *end = text + strlen(text);
	const auto result = std::from_chars(text, end, *pid);

	return result.ec == std::errc() && result.ptr == end && *pid > 0;
}

std::string command_name(int pid)
{
	char name[64] = "";

	if (FILE *f = fopen(("/proc/" + std::to_string(pid) + "/comm").c_str(), "re")) {
		if (fgets(name, sizeof(name), f))
			name[strcspn(name, "\n")] = 0;
		fclose(f);
	}
	return name;
}

// Who has a registry, of those that may be looked at.
int list_all(bool as_json)
{
	Json json(stdout);
	std::error_code ec;

	sframe_peer_sweep();
	if (as_json)
		json.open('[');
	else
		printf("%8s %-16s %8s  %s\n", "PID", "COMMAND", "RANGES", "BACKEND");
	for (const auto &entry : std::filesystem::directory_iterator("/proc", ec)) {
		Registry registry;
		int pid;

		if (!parse_pid(entry.path().filename().c_str(), &pid) || pid == getpid() ||
		    read_registry(pid, &registry))
			continue;
		if (as_json)
			json.open('{').member("pid", pid).member("command", command_name(pid))
				.member("ranges", registry.entries.size())
				.member("backend", backend_name(registry.backend)).close();
		else
			printf("%8d %-16s %8zu  %s\n", pid, printable(command_name(pid)).c_str(),
			       registry.entries.size(), backend_name(registry.backend));
	}
	if (as_json)
		json.close();
	return ec ? complain("list: /proc: %s", ec.message().c_str()) : EXIT_OK;
}

} // namespace

int list_main(int argc, char **argv)
{
	static const option options[] = {
		{ "json", no_argument, nullptr, 'j' },
		{ "help", no_argument, nullptr, 'h' },
		{ nullptr, 0, nullptr, 0 },
	};
	bool as_json = false;
	int pid;

	for (int c; (c = getopt_long(argc, argv, "jh", options, nullptr)) != -1;) {
		switch (c) {
		case 'j':
			as_json = true;
			break;
		case 'h':
			fputs(help, stdout);
			return EXIT_OK;
		default:
			fputs(help, stderr);
			return EXIT_USAGE;
		}
	}
	if (optind == argc)
		return list_all(as_json);
	if (optind + 1 != argc || !parse_pid(argv[optind], &pid)) {
		complain("list: '%s' is not a process ID", argv[optind]);
		return EXIT_USAGE;
	}
	return list_one(pid, as_json);
}
