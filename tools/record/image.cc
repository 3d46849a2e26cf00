// SPDX-License-Identifier: MIT
//
// Program images: what the environment says, exec and fork.
//
// The recorder names the ring and the libraries in variables. Without --follow
// they are taken out of the environment at once: neither the program nor its
// children, however started, see them. A program that replaces itself by exec
// stays the recorded one: the exec calls put the variables back, in the
// recorded process only. With --follow the variables stay for every child.
#include <alloca.h>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <spawn.h>
#include <unistd.h>
#include "sampler.h"
#include "sys.h"

extern char **environ;

namespace sframe::record {

namespace {

constexpr char RING_VARIABLE[] = "SFRAME_RECORD=";
constexpr char PRELOAD_VARIABLE[] = "SFRAME_RECORD_PRELOAD=";	// our element of LD_PRELOAD
constexpr char AUDIT_VARIABLE[] = "SFRAME_RECORD_AUDIT=";	// and of LD_AUDIT

// "NAME=value" as the recorder gave it; empty if it did not.
char ring_variable[4096], preload_variable[4096], audit_variable[4096];

bool is_variable(const char *entry, const char *name_equals)
{
	return !strncmp(entry, name_equals, strlen(name_equals));
}

void read_variable(char *to, size_t size, const char *name_equals)
{
	to[0] = 0;
	for (char **e = environ; e && *e; e++)
		if (is_variable(*e, name_equals) && strlen(*e) < size)
			strcpy(to, *e);
}

const char *value_of(const char *entry)
{
	const char *equals = strchr(entry, '=');
	return equals ? equals + 1 : "";
}

// Removes one element of a colon-separated list, in place. False: nothing is left.
bool remove_element(char *list, const char *element)
{
	const size_t length = strlen(element);
	char *to = list;

	for (const char *at = list; *at;) {
		const size_t n = strcspn(at, ": ");
		if (n && !(n == length && !memcmp(at, element, n))) {
			if (to != list)
				*to++ = ':';
			memmove(to, at, n);
			to += n;
		}
		at += n + (at[n] != 0);
	}
	*to = 0;
	return to != list;
}

bool holds_element(const char *list, const char *element)
{
	const size_t length = strlen(element);

	for (const char *at = list; *at;) {
		const size_t n = strcspn(at, ": ");
		if (n == length && !memcmp(at, element, n))
			return true;
		at += n + (at[n] != 0);
	}
	return false;
}

bool ours_alone(const char *entry)
{
	return is_variable(entry, RING_VARIABLE) || is_variable(entry, PRELOAD_VARIABLE) ||
	       is_variable(entry, AUDIT_VARIABLE);
}

} // namespace

void image_init()
{
	read_variable(ring_variable, sizeof(ring_variable), RING_VARIABLE);
	read_variable(preload_variable, sizeof(preload_variable), PRELOAD_VARIABLE);
	read_variable(audit_variable, sizeof(audit_variable), AUDIT_VARIABLE);
}

const char *image_ring_path() { return value_of(ring_variable); }

void image_hide()
{
	if (sampler.active && sampler.follow)
		return;
	char **to = environ;
	for (char **e = environ; e && *e; e++) {
		if (ours_alone(*e))
			continue;
		if (is_variable(*e, "LD_PRELOAD=") &&
		    !remove_element(*e + strlen("LD_PRELOAD="), value_of(preload_variable)))
			continue;
		if (is_variable(*e, "LD_AUDIT=") &&
		    !remove_element(*e + strlen("LD_AUDIT="), value_of(audit_variable)))
			continue;
		*to++ = *e;
	}
	if (to)
		*to = nullptr;
}

// ---- exec -------------------------------------------------------------------

namespace {

// Room for the environment that brings the sampler along. On the caller's
// stack: exec is called between vfork and exec, and in signal handlers.
struct Injection {
	size_t entries;		// of the array, the end included
	size_t preload, audit;	// bytes of the strings
};

bool must_inject()
{
	return __atomic_load_n(&sampler.active, __ATOMIC_ACQUIRE) && *ring_variable &&
	       *preload_variable && (sampler.follow || sampling_here());
}

Injection measure(char *const envp[])
{
	Injection room = { 6, sizeof("LD_PRELOAD=") + strlen(preload_variable),
			   sizeof("LD_AUDIT=") + strlen(audit_variable) };

	for (; envp && *envp; envp++) {
		room.entries++;
		if (is_variable(*envp, "LD_PRELOAD="))
			room.preload += strlen(*envp) + 1;
		if (is_variable(*envp, "LD_AUDIT="))
			room.audit += strlen(*envp) + 1;
	}
	return room;
}

// "NAME=ours[:theirs]"
char *join(char *to, const char *name_equals, const char *own, const char *theirs)
{
	strcpy(to, name_equals);
	strcat(to, own);
	if (theirs && *theirs && !holds_element(theirs, own)) {
		strcat(to, ":");
		strcat(to, theirs);
	} else if (theirs && *theirs) {
		strcpy(to + strlen(name_equals), theirs);
	}
	return to;
}

void inject(char **out, char *preload, char *audit, char *const envp[])
{
	const char *their_preload = nullptr, *their_audit = nullptr;

	for (; envp && *envp; envp++) {
		if (is_variable(*envp, "LD_PRELOAD="))
			their_preload = value_of(*envp);
		else if (is_variable(*envp, "LD_AUDIT="))
			their_audit = value_of(*envp);
		else if (!ours_alone(*envp))
			*out++ = *envp;
	}
	*out++ = join(preload, "LD_PRELOAD=", value_of(preload_variable), their_preload);
	if (*audit_variable) {
		*out++ = join(audit, "LD_AUDIT=", value_of(audit_variable), their_audit);
		*out++ = audit_variable;
	}
	*out++ = preload_variable;
	*out++ = ring_variable;
	*out = nullptr;
}

} // namespace

// The environment to pass on, in the scope of the caller's function.
#define WITH_SAMPLER(envp)                                                                         \
	if (must_inject()) {                                                                       \
		const Injection room = measure(envp);                                              \
		char **const with = static_cast<char **>(alloca(room.entries * sizeof(char *)));   \
		char *const preload = static_cast<char *>(alloca(room.preload));                   \
		char *const audit = static_cast<char *>(alloca(room.audit));                       \
		inject(with, preload, audit, envp);                                                \
		envp = with;                                                                       \
	}

// The arguments of execl and its kin, as an array on the caller's stack.
#define COLLECT_ARGUMENTS(argv, first)                                                             \
	va_list ap;                                                                                \
	size_t argc = 1;                                                                           \
	va_start(ap, first);                                                                       \
	while (va_arg(ap, char *))                                                                 \
		argc++;                                                                            \
	va_end(ap);                                                                                \
	char **const argv = static_cast<char **>(alloca((argc + 1) * sizeof(char *)));             \
	va_start(ap, first);                                                                       \
	argv[0] = const_cast<char *>(first);                                                       \
	for (size_t i = 1; i <= argc; i++)                                                         \
		argv[i] = va_arg(ap, char *)

// ---- fork -------------------------------------------------------------------

namespace {

void in_child()
{
	if (!__atomic_load_n(&sampler.active, __ATOMIC_ACQUIRE) || !sampler.follow)
		return;		// no timer came along, and none is made: see sampling_here()
	const uint32_t parent = sampler.image;
	sampler_new_image(parent);
	threads_after_fork();
}

__attribute__((constructor)) void watch_forks() { pthread_atfork(nullptr, nullptr, in_child); }

} // namespace

} // namespace sframe::record

using namespace sframe::record;

SAMPLER_EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
	static int (*next)(const char *, char *const[], char *const[]);

	if (!next_function(&next, "execve"))
		return -1;
	WITH_SAMPLER(envp);
	return next(path, argv, envp);
}

SAMPLER_EXPORT int execv(const char *path, char *const argv[])
{
	return execve(path, argv, environ);
}

SAMPLER_EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
	static int (*next)(const char *, char *const[], char *const[]);

	if (!next_function(&next, "execvpe"))
		return -1;
	WITH_SAMPLER(envp);
	return next(file, argv, envp);
}

SAMPLER_EXPORT int execvp(const char *file, char *const argv[])
{
	return execvpe(file, argv, environ);
}

SAMPLER_EXPORT int execl(const char *path, const char *arg, ...)
{
	COLLECT_ARGUMENTS(argv, arg);
	va_end(ap);
	return execve(path, argv, environ);
}

SAMPLER_EXPORT int execlp(const char *file, const char *arg, ...)
{
	COLLECT_ARGUMENTS(argv, arg);
	va_end(ap);
	return execvpe(file, argv, environ);
}

SAMPLER_EXPORT int execle(const char *path, const char *arg, ...)
{
	COLLECT_ARGUMENTS(argv, arg);
	char *const *envp = va_arg(ap, char *const *);
	va_end(ap);
	return execve(path, argv, envp);
}

SAMPLER_EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
	static int (*next)(int, char *const[], char *const[]);

	if (!next_function(&next, "fexecve"))
		return -1;
	WITH_SAMPLER(envp);
	return next(fd, argv, envp);
}

SAMPLER_EXPORT int execveat(int fd, const char *path, char *const argv[], char *const envp[],
			    int flags)
{
	static int (*next)(int, const char *, char *const[], char *const[], int);

	if (!next_function(&next, "execveat"))
		return -1;
	WITH_SAMPLER(envp);
	return next(fd, path, argv, envp, flags);
}
