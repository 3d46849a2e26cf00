/* SPDX-License-Identifier: MIT */
/* Between the host and its plugins. */
#ifndef DEMO_PLUGIN_H
#define DEMO_PLUGIN_H

#ifdef __cplusplus
extern "C" {
#endif

struct plugin_host {
	void (*report)(const char *what, long value);	/* may be called at any depth */
};

/* What a plugin exports. */
void plugin_run(const struct plugin_host *host);

#ifdef __cplusplus
}
#endif
#endif
