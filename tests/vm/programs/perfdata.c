/* SPDX-License-Identifier: MIT */
/*
 * perfdata FILE: what a recording of perf holds, as "=data= SAMPLES BYTES LOST".
 * BYTES are those of the samples with their deferred call chains, without maps
 * and headers, which every mode has alike.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { LOST = 2, SAMPLE = 9, LOST_SAMPLES = 13, CALLCHAIN_DEFERRED = 22 };

struct section {
	uint64_t offset, size;
};

struct file_header {
	uint64_t magic, size, attr_size;
	struct section attrs, data;
};

struct record {
	uint32_t type;
	uint16_t misc, size;
	uint64_t words[2];
};

int main(int argc, char **argv)
{
	FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
	struct file_header header;
	uint64_t samples = 0, bytes = 0, lost = 0;

	if (!file || fread(&header, sizeof(header), 1, file) != 1) {
		fprintf(stderr, "usage: perfdata FILE\n");
		return 2;
	}
	for (uint64_t at = 0; at + 8 <= header.data.size;) {
		struct record record = { 0 };
		if (fseek(file, (long)(header.data.offset + at), SEEK_SET) ||
		    !fread(&record, 8, 1, file) || record.size < 8)
			break;
		if (fread(record.words, sizeof(record.words), 1, file) != 1 && record.size >= sizeof(record))
			break;
		if (record.type == SAMPLE)
			samples++;
		if (record.type == SAMPLE || record.type == CALLCHAIN_DEFERRED)
			bytes += record.size;
		if (record.type == LOST)
			lost += record.words[1];
		else if (record.type == LOST_SAMPLES)
			lost += record.words[0];
		at += record.size;
	}
	printf("=data= %lu %lu %lu\n", (unsigned long)samples, (unsigned long)bytes, (unsigned long)lost);
	return 0;
}
