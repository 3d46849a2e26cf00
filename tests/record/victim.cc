// SPDX-License-Identifier: MIT
//
// A program to be sampled: does what its first argument says. Each mode prints
// what it saw and exits with 0 if that is what it sees without a sampler.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <string>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern char **environ;

namespace {

volatile unsigned long sink;

double clock_seconds(clockid_t clock)
{
	timespec ts;

	clock_gettime(clock, &ts);
	return static_cast<double>(ts.tv_sec) + static_cast<double>(ts.tv_nsec) / 1e9;
}

double cpu() { return clock_seconds(CLOCK_THREAD_CPUTIME_ID); }
double wall() { return clock_seconds(CLOCK_MONOTONIC); }

} // namespace

extern "C" {

// Named by the tests; the loop is theirs, so the time is too.
__attribute__((noinline)) void spin_major(double until)
{
	while (cpu() < until)
		for (int i = 0; i < 20000; i++)
			sink = sink * 31 + i;
}

__attribute__((noinline)) void spin_minor(double until)
{
	while (cpu() < until)
		for (int i = 0; i < 20000; i++)
			sink = sink * 17 + i;
}

__attribute__((noinline)) void wait_in_sleep(double seconds)
{
	timespec ts = { static_cast<time_t>(seconds), static_cast<long>((seconds - static_cast<long>(seconds)) * 1e9) };
	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
	sink = sink + 1;
}

} // extern "C"

namespace {

void burn(double seconds) { spin_major(cpu() + seconds); }

int shares()
{
	for (int i = 0; i < 10; i++) {
		spin_major(cpu() + 0.14);
		spin_minor(cpu() + 0.06);
	}
	return 0;
}

// As many threads as asked for, all alive at once, on small stacks.
int threads(int count)
{
	static std::atomic<int> begun;
	static pthread_rwlock_t gate = PTHREAD_RWLOCK_INITIALIZER;
	pthread_attr_t attr;
	std::vector<pthread_t> ids(count);
	int made = 0;

	pthread_rwlock_wrlock(&gate);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 16384 + 16384);
	for (pthread_t &id : ids)
		made += pthread_create(&id, &attr, [](void *) -> void * {
			begun++;
			pthread_rwlock_rdlock(&gate);
			burn(0.002);
			return nullptr;
		}, nullptr) == 0;
	while (begun < made)
		usleep(1000);
	pthread_rwlock_unlock(&gate);
	for (int i = 0; i < made; i++)
		pthread_join(ids[i], nullptr);
	printf("%d threads\n", made);
	return made == count ? 0 : 1;
}

std::atomic<int> ticks;

// A program with a profiler of its own.
int own_sigprof()
{
	struct sigaction action = {}, seen;
	const itimerval every = { { 0, 10000 }, { 0, 10000 } };
	itimerval now;

	action.sa_handler = [](int) { ticks++; };
	action.sa_flags = SA_RESTART;
	sigaction(SIGPROF, &action, nullptr);
	setitimer(ITIMER_PROF, &every, nullptr);
	burn(1);
	sigaction(SIGPROF, nullptr, &seen);
	getitimer(ITIMER_PROF, &now);
	printf("%d ticks\n", ticks.load());
	return ticks >= 20 && seen.sa_handler == action.sa_handler && now.it_interval.tv_usec == 10000 ? 0 : 1;
}

// Blocks everything, and must be told so.
int block_all()
{
	sigset_t all, old, now;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	pthread_sigmask(SIG_BLOCK, nullptr, &now);
	for (int sig = SIGRTMIN; sig <= SIGRTMAX; sig++)
		if (sigismember(&old, sig) || !sigismember(&now, sig)) {
			printf("signal %d: %d before, %d now\n", sig, sigismember(&old, sig), sigismember(&now, sig));
			return 1;
		}
	std::thread([] { burn(0.5); }).join();	// threads inherit the mask
	burn(0.5);
	sigprocmask(SIG_SETMASK, &old, &now);
	return sigismember(&now, SIGRTMAX - 2) == 1 ? 0 : 1;
}

// Every signal's disposition asked for, reset and asked for again, as shells
// and runtimes do at their start.
int reset_all()
{
	for (int sig = 1; sig <= SIGRTMAX; sig++) {
		struct sigaction action = {}, old;
		if (sig == SIGKILL || sig == SIGSTOP || (sig >= 32 && sig < SIGRTMIN))
			continue;
		if (sigaction(sig, nullptr, &old) || old.sa_handler != SIG_DFL)
			return 1;
		action.sa_handler = SIG_DFL;
		if (sigaction(sig, &action, nullptr))
			return 1;
		signal(sig, SIG_DFL);
	}
	burn(1);
	return 0;
}

// A thread that takes all signals, as servers have it, by sigwait and signalfd.
int wait_all()
{
	static std::atomic<int> got, other;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, nullptr);
	std::thread waiter([&all] {
		for (;;) {
			int sig;
			if (sigwait(&all, &sig))
				return;
			if (sig == SIGTERM)
				return;
			(sig == SIGUSR1 ? got : other)++;
		}
	});
	const int fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	for (int i = 0; i < 10; i++) {
		burn(0.05);
		pthread_kill(waiter.native_handle(), SIGUSR1);
		usleep(2000);
	}
	signalfd_siginfo info;
	if (read(fd, &info, sizeof(info)) > 0)
		other++;
	usleep(20000);
	pthread_kill(waiter.native_handle(), SIGTERM);
	waiter.join();
	printf("%d got, %d other\n", got.load(), other.load());
	return got >= 1 && other == 0 ? 0 : 1;
}

// The program has a use for our signal number itself.
int use_number(int sig)
{
	struct sigaction action = {}, seen;
	static std::atomic<int> value;

	action.sa_sigaction = [](int, siginfo_t *info, void *) { value = info->si_value.sival_int; };
	action.sa_flags = SA_SIGINFO;
	sigaction(sig, &action, nullptr);
	burn(0.3);
	union sigval v = { 42 };
	sigqueue(getpid(), sig, v);
	burn(0.3);
	sigaction(sig, nullptr, &seen);
	if (value != 42 || seen.sa_sigaction != action.sa_sigaction)
		return 1;
	// And waits for it, blocked.
	sigset_t set, before;
	siginfo_t info;
	sigemptyset(&set);
	sigaddset(&set, sig);
	pthread_sigmask(SIG_BLOCK, &set, &before);
	v.sival_int = 43;
	pthread_sigqueue(pthread_self(), sig, v);
	burn(0.2);
	if (sigwaitinfo(&set, &info) != sig || info.si_value.sival_int != 43 || value != 42)
		return 1;
	return 0;
}

// Calls that a handler always interrupts. Not with us.
int waits()
{
	int interrupted = 0;
	const double begin = wall();
	const timespec tenth = { 0, 100000000 };
	timespec zero = { 0, 200000000 };
	timeval tv = { 0, 200000 };
	epoll_event event;
	sigset_t none;

	sigemptyset(&none);
	const int ep = epoll_create1(EPOLL_CLOEXEC);
	for (int i = 0; i < 2; i++) {
		interrupted += poll(nullptr, 0, 200) != 0;
		interrupted += ppoll(nullptr, 0, &zero, nullptr) != 0;
		interrupted += select(0, nullptr, nullptr, nullptr, &tv) != 0;
		interrupted += epoll_wait(ep, &event, 1, 200) != 0;
		interrupted += epoll_pwait(ep, &event, 1, 200, &none) != 0;
		interrupted += nanosleep(&tenth, nullptr) != 0;
		interrupted += usleep(200000) != 0;
		tv = { 0, 200000 };
	}
	const double took = wall() - begin;
	printf("%d interrupted, %.2f s\n", interrupted, took);
	return interrupted == 0 && took >= 2.2 ? 0 : 1;
}

// A signal that the program waits for ends the wait, in spite of us.
int wakes()
{
	static std::atomic<int> alarms;
	struct sigaction action = {};

	action.sa_handler = [](int) { alarms++; };
	sigaction(SIGALRM, &action, nullptr);
	for (int i = 1; i <= 20; i++) {
		ualarm(30000, 0);
		errno = 0;
		if (i % 2)
			pause();
		else
			poll(nullptr, 0, 5000);
		if (errno != EINTR || alarms != i)
			return 1;
	}
	return 0;
}

int handler_on_alternate_stack()
{
	static char stack[65536];
	stack_t ss = {};
	struct sigaction action = {};

	ss.ss_sp = stack;
	ss.ss_size = sizeof(stack);
	sigaltstack(&ss, nullptr);
	action.sa_handler = [](int) { spin_minor(cpu() + 0.3); };
	action.sa_flags = SA_ONSTACK;
	sigfillset(&action.sa_mask);
	sigaction(SIGUSR1, &action, nullptr);
	raise(SIGUSR1);
	burn(0.2);
	return 0;
}

int fork_tree()
{
	for (int i = 0; i < 2; i++)
		if (fork() == 0) {
			if (fork() == 0) {
				std::thread([] { burn(0.3); }).join();
				_exit(0);
			}
			wait(nullptr);
			burn(0.3);
			_exit(0);
		}
	burn(0.3);
	while (wait(nullptr) > 0)
		;
	return 0;
}

// Prints what of our environment a program and its children see.
int show_environment()
{
	for (char **e = environ; *e; e++)
		if (!strncmp(*e, "LD_", 3) || !strncmp(*e, "SFRAME_", 7))
			puts(*e);
	return 0;
}

int children(const char *self)
{
	const std::string command = std::string(self) + " environment";
	char *const argv[] = { const_cast<char *>(self), const_cast<char *>("environment"), nullptr };
	pid_t pid;
	int status, bad = system(command.c_str());

	bad += posix_spawn(&pid, self, nullptr, nullptr, argv, environ) || waitpid(pid, &status, 0) != pid || status;
	if ((pid = vfork()) == 0) {
		execve(self, argv, environ);
		_exit(1);
	}
	bad += waitpid(pid, &status, 0) != pid || status;
	if ((pid = fork()) == 0) {
		execl(self, self, "environment", nullptr);
		_exit(1);
	}
	bad += waitpid(pid, &status, 0) != pid || status;
	return bad;
}

int exec_chain(const char *self, int length)
{
	const std::string left = std::to_string(length - 1);

	burn(0.2);
	if (!length)
		return 0;
	char *const empty[] = { nullptr };
	char *const argv[] = { const_cast<char *>(self), const_cast<char *>("exec"),
			       const_cast<char *>(left.c_str()), nullptr };
	switch (length % 3) {
	case 0:
		return execl(self, self, "exec", left.c_str(), nullptr);
	case 1:
		return execve(self, argv, empty);
	default:
		return execvp(self, argv);
	}
}

} // namespace

int main(int argc, char **argv)
{
	const std::string mode = argc > 1 ? argv[1] : "";
	const int number = argc > 2 ? atoi(argv[2]) : 0;

	if (mode == "shares")
		return shares();
	if (mode == "threads")
		return threads(number);
	if (mode == "sigprof")
		return own_sigprof();
	if (mode == "block")
		return block_all();
	if (mode == "reset")
		return reset_all();
	if (mode == "sigwait")
		return wait_all();
	if (mode == "number")
		return use_number(number);
	if (mode == "waits")
		return waits();
	if (mode == "wakes")
		return wakes();
	if (mode == "altstack")
		return handler_on_alternate_stack();
	if (mode == "fork")
		return fork_tree();
	if (mode == "environment")
		return show_environment();
	if (mode == "children")
		return children(argv[0]);
	if (mode == "exec")
		return exec_chain(argv[0], number);
	if (mode == "sleep") {
		wait_in_sleep(1);
		return 0;
	}
	if (mode == "exit") {
		burn(0.1);
		return number;
	}
	if (mode == "crash") {
		burn(0.3);
		raise(number);
	}
	return 99;
}
