#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Writes the header that names the synthesizer by a checksum of its sources: a
# cached section never outlives the code that made it. Leaves the header alone
# where nothing changed, so that nothing is rebuilt.
#
# usage: synth-version.sh SOURCE-DIRECTORY OUTPUT
set -eu
sum=$(cat "$1"/src/*.h "$1"/src/*.cc "$1"/core/*.h "$1"/include/sframe/synth.h | cksum | cut -d' ' -f1)
line="#define SFRAME_SYNTH_VERSION ${sum}u"
if [ ! -f "$2" ] || [ "$(tail -n 1 "$2")" != "$line" ]; then
	printf '// SPDX-License-Identifier: MIT\n// Made by synth-version.sh.\n%s\n' "$line" >"$2"
fi
