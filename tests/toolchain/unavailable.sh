#!/bin/sh
# SPDX-License-Identifier: MIT
#
# unavailable.sh FETCH: where nothing can be fetched, fetch says so in one line.
fetch=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
check() {
	number=$((${number:-0} + 1))
	if eval "$2"; then echo "ok $number - $1"; else
		echo "not ok $number - $1"
		sed 's/^/# /' "$dir/errors"
	fi
}

command -v apt-get >/dev/null || { echo "1..0 # SKIP no apt here"; exit 0; }
echo 1..5
SFRAME_DEBIAN_MIRROR=http://127.0.0.1:9/debian "$fetch" "$dir/cache" >"$dir/output" 2>"$dir/errors"
status=$?
check "no mirror: exit status 1" '[ $status = 1 ]'
check "one line on stderr" '[ "$(wc -l <"$dir/errors")" = 1 ]'
check "it names what it could not read" 'grep -q "cannot read sid.s package list" "$dir/errors"'
check "no stamp is left" '[ ! -e "$dir/cache/stamp" ]'

"$fetch" /proc/nowhere >"$dir/output" 2>"$dir/errors"
check "a directory that cannot be written is named" 'grep -q "cannot write to /proc/nowhere" "$dir/errors"'
