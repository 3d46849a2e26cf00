// SPDX-License-Identifier: MIT
//
// How a benchmark reports: beside what Google Benchmark prints, one record per
// figure, with the peer measured in the same run. `./test --bench` collects
// the records into build/bench.json.
#pragma once

#include <cstdio>
#include <cstdlib>

// Appends {name, value, unit, peer, peer_value, ratio} to the file named by
// SFRAME_BENCH_OUT (if set) and prints a line for people.
inline void bench_result(const char *name, double value, const char *unit, const char *peer,
			 double peer_value)
{
	const double ratio = peer_value != 0 ? value / peer_value : 0;

	printf("%-20s %12.3f %-8s  %s: %.3f  ratio %.3f\n", name, value, unit, peer, peer_value,
	       ratio);
	if (const char *path = getenv("SFRAME_BENCH_OUT"))
		if (FILE *out = fopen(path, "a")) {
			fprintf(out,
				"{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", "
				"\"peer\": \"%s\", \"peer_value\": %.6g, \"ratio\": %.4f}\n",
				name, value, unit, peer, peer_value, ratio);
			fclose(out);
		}
}
