// SPDX-License-Identifier: MIT
//
// What recording costs: CPU time of a program that computes in several
// libraries, recorded (recorder and start included) and not, in turns.
#include <algorithm>
#include <benchmark/benchmark.h>
#include <cstdlib>
#include <fcntl.h>
#include <map>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>
#include "result.h"

namespace {

constexpr int ROUNDS = 9;

// About three seconds in the interpreter, hashing, compression, a database and JSON.
const char workload[] =
	"import hashlib, json, sqlite3, zlib\n"
	"base = sqlite3.connect(':memory:'); base.execute('create table t(a, b)')\n"
	"for i in range(100):\n"
	"    hashlib.sha256(b'x' * 2000000).digest()\n"
	"    zlib.compress(bytes(range(256)) * 400)\n"
	"    json.loads(json.dumps({str(k): [k] * 4 for k in range(1500)}))\n"
	"    base.executemany('insert into t values(?, ?)', ((k, str(k)) for k in range(800)))\n"
	"    base.execute('select sum(a) from t group by b % 7').fetchall()\n"
	"    sum(k * k for k in range(40000))\n";

// CPU seconds of a command and everything it waited for.
double cpu_of(const std::vector<std::string> &command)
{
	std::vector<char *> argv;
	rusage usage = {};
	int status = 0;

	for (const std::string &arg : command)
		argv.push_back(const_cast<char *>(arg.c_str()));
	argv.push_back(nullptr);
	const pid_t pid = fork();
	if (pid == 0) {
		dup2(open("/dev/null", O_WRONLY), 2);
		execvp(argv[0], argv.data());
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &usage) != pid || status != 0) {
		fprintf(stderr, "%s: status %d\n", argv[0], status);
		exit(1);
	}
	const auto seconds = [](const timeval &t) {
		return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
	};
	return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double median(std::vector<double> v)
{
	std::sort(v.begin(), v.end());
	return v[v.size() / 2];
}

void record(benchmark::State &state, const char *name, const char *hertz)
{
	const char *const sframectl = getenv("SFRAMECTL");
	const std::string data = "/tmp/sframe-bench." + std::to_string(getpid());
	const std::vector<std::string> plain = { "/usr/bin/python3", "-c", workload };
	std::vector<std::string> recorded = { sframectl ? sframectl : "sframectl", "record", "-F", hertz,
					      "-o", data, "--" };
	std::vector<double> with, without;

	recorded.insert(recorded.end(), plain.begin(), plain.end());
	cpu_of(recorded);	// fills the cache of sections
	for (auto _ : state) {
		without.push_back(cpu_of(plain));
		with.push_back(cpu_of(recorded));
		state.SetIterationTime(with.back());
	}
	unlink(data.c_str());
	bench_result(name, median(with), "s", "unrecorded", median(without));
}

} // namespace

int main(int argc, char **argv)
{
	benchmark::Initialize(&argc, argv);
	for (const auto &[name, hertz] : std::map<std::string, std::string>{ { "record_99hz", "99" },
									       { "record_999hz", "999" } })
		benchmark::RegisterBenchmark(name.c_str(), [name = name, hertz = hertz](benchmark::State &state) {
			record(state, name.c_str(), hertz.c_str());
		})->Iterations(ROUNDS)->UseManualTime()->Unit(benchmark::kSecond);
	benchmark::RunSpecifiedBenchmarks();
	return 0;
}
