#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Rules for every file of the tree: it names its licence, it names no machine,
# it leaves nothing undone.
. "$(dirname "$0")/tap.sh"
cd "$SOURCE" || exit 1

if ! command -v git >/dev/null || ! tracked >/dev/null 2>&1; then
	echo '1..0 # skip not a git clone, so which files belong to it is not known'
	exit 0
fi

# Licence texts name themselves; fuzzers' seeds are bytes; pictures are not text.
spdx() {
	local lacking
	lacking=$(tracked ':!LICENSES/*.txt' ':!tests/fuzz/seeds' ':!*.png' ':!*.gz' |
		xargs -0 grep -L 'SPDX-License-Identifier: ')
	[ -z "$lacking" ] || { echo "$lacking"; return 1; }
}
check 'every file has an SPDX line' spdx

known_licences() {
	local licence status=0
	for licence in $(tracked ':!LICENSES/*.txt' ':!tests/fuzz/seeds' |
		xargs -0 grep -hIoE 'SPDX-License-Identifier: \(?[A-Z][A-Za-z0-9.() -]+' | sed 's/.*: //' |
		grep -owE '[A-Z][A-Za-z0-9.-]*[a-zA-Z0-9]' | grep -vx -e OR -e AND -e WITH | sort -u); do
		[ -f "LICENSES/$licence.txt" ] || { echo "no text of $licence in LICENSES/"; status=1; }
	done
	return $status
}
check 'every licence named has its text in LICENSES/' known_licences

licences_of() {
	local pattern=$1 licence=$2 other
	other=$(tracked "$pattern" | xargs -0 -r grep -L "SPDX-License-Identifier: $licence")
	[ -z "$other" ] || { echo "not $licence:"; echo "$other"; return 1; }
}
check 'the core is GPL-2.0-only or MIT' licences_of 'libsframe-register/core/*.h' '(\{0,1\}GPL-2.0-only OR MIT'

# Brackets keep these lines from finding themselves.
without() {
	local found
	found=$(tracked ':!LICENSES' ':!tests/fuzz/seeds' | xargs -0 grep -nIE "$1" | head -n 20)
	[ -z "$found" ] || { echo "$found"; return 1; }
}
check 'no path of a developer machine' without '(^|[^a-z.])/(wor[k]/|opt/si[d]|home/[a-z]+/)'
check 'no mirror host' without '(deb|ftp|snapshot|mirror)[a-z.-]*\.debia[n]\.(org|net)|[a-z]\.debia[n]\.org/debian'
check 'nothing is left undone' without '\b(TOD[O]|FIXM[E]|XX[X])\b|[Nn]ot implemente[d]'
check 'no tracked file is executable by accident' bash -c '
	git -c safe.directory="*" ls-files -s | while read -r mode _ _ path; do
		[ "$mode" = 100755 ] || continue
		head -c 2 "$path" | grep -q "^#!" || echo "$path"
	done | (! grep .)'

readmes() {
	local path directory status=0
	for path in $(tracked | tr '\0' '\n' | grep / | sed 's,/[^/]*$,,' | sort -u); do
		case $path in
		# Bytes; headers beside their sources; paths that the kernel's tree gives.
		tests/fuzz/seeds* | */include* | */.* | .* | kernel/sframe_syscall/tree/*) continue ;;
		esac
		directory=$path
		# A part of a subject may be told about by the README of the subject.
		while [ "$directory" != . ] && ! [ -f "$directory/README.md" ]; do
			directory=$(dirname "$directory")
		done
		[ "$directory" != . ] || { echo "$path"; status=1; }
	done
	return $status
}
check 'every directory is told about in a README' readmes

links() {
	local page link status=0
	for page in $(tracked '*.md' | tr '\0' '\n'); do
		for link in $(grep -oE '\]\([^)#:]+' "$page" | sed 's/^](//'); do
			[ -e "$(dirname "$page")/$link" ] || { echo "$page: $link"; status=1; }
		done
	done
	return $status
}
check 'links between pages lead somewhere' links
done_testing
