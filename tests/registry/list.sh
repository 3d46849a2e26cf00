#!/bin/bash
# SPDX-License-Identifier: MIT
#
# `sframectl list` on live processes, and what it says where there is nothing.
. "$(dirname "$0")/../install/tap.sh"
sframectl=$BUILD/tools/sframectl
list() { "$sframectl" list "$@" 2>&1; }

SFRAME_SHM_DIR=$(mktemp -d /dev/shm/sframe-list-XXXXXX)
export SFRAME_SHM_DIR
"$sframectl" run -- sleep 1000 2>/dev/null &
runner=$!
pid=
for _ in $(seq 200); do
	pid=$(pgrep -P $runner -x sleep) && list "$pid" >/dev/null && break
	sleep 0.1
done
trap 'kill $pid $runner 2>/dev/null; wait 2>/dev/null; rm -rf "$SFRAME_SHM_DIR"' EXIT

has() { list "${@:2}" | grep -qE -- "$1"; }
check 'names the objects with source and build-id' \
	has '^[0-9a-f]{16}-[0-9a-f]{16} (synthesized|native) +3 +[0-9]+ +[0-9a-f]{40} .*/sleep$' "$pid"
check 'shows libc' has 'libc\.so\.6$' "$pid"
check 'shows the vDSO' has 'vdso' "$pid"
check 'tells backend and statistics' has '^[0-9]+ ranges; backend (shm|kernel)$' "$pid"
valid_json() { list --json "$pid" | python3 -c '
import json, sys
d = json.load(sys.stdin)
assert d["pid"] == int(sys.argv[1]) and d["inherited_from"] == 0
assert len(d["ranges"]) == d["stats"]["live"] > 2
ends = [(int(r["start"], 16), int(r["end"], 16)) for r in d["ranges"]]
assert all(a < b for a, b in ends) and ends == sorted(ends)' "$pid"; }
check '--json is JSON, sorted, and agrees with the statistics' valid_json
check 'without PID: the process is listed' has "^ +$pid sleep" --
fails() { local want=$1 line=$2 out; shift 2; out=$(list "$@"); [ $? = "$want" ] && [[ $out == *"$line"* ]]; }
check 'no such process: one line' fails 3 'no process 4194304' 4194304
check 'no registry: one line' fails 3 "process $$ has no registry" $$
check 'not a number' fails 2 "'x1' is not a process ID" x1
kill $pid; wait $runner 2>/dev/null
check 'a process that ended is no process' fails 3 "no process $pid" "$pid"
done_testing
