# SPDX-License-Identifier: MIT
# Points of a TAP stream for shell tests.

points=0
# Meson sets these; by hand it is this tree and its build/.
SOURCE=${SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
BUILD=${BUILD:-$SOURCE/build}

# check NAME COMMAND...: a point that holds if the command succeeds; its output explains if not.
check() {
	local name=$1 output
	shift
	points=$((points + 1))
	if output=$("$@" 2>&1); then
		echo "ok $points - $name"
	else
		printf '%s\n' "$output" | sed 's/^/  /'
		echo "not ok $points - $name"
	fi
}

# skip NAME REASON
skip() {
	points=$((points + 1))
	echo "ok $points - $1 # SKIP $2"
}

done_testing() { echo "1..$points"; }

# subset A B WHAT: every line of file A is one of file B; prints those that are not.
subset() {
	local rest
	rest=$(LC_ALL=C sort -u "$1" | LC_ALL=C comm -23 - <(LC_ALL=C sort -u "$2"))
	[ -z "$rest" ] || { echo "$3:"; echo "$rest"; return 1; }
}

# The tree as a clone has it: tracked files only.
tracked() { git -c safe.directory='*' -C "$SOURCE" ls-files -z "$@"; }
