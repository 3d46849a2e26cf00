#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Manual pages and completion: clean, and complete as measured against what the
# library exports and sframectl offers.
. "$(dirname "$0")/tap.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
sframectl=$BUILD/tools/sframectl

pages() { find "$SOURCE/libsframe-register/man" "$SOURCE/tools/man" -name '*.[1-8]' 2>/dev/null; }
for page in $(pages | sort); do
	name=${page##*/}
	if command -v mandoc >/dev/null; then
		check "$name is clean for mandoc" mandoc -T lint -W warning,stop "$page"
	else
		skip "$name is clean for mandoc" 'mandoc is not installed'
	fi
done

# Names that the pages' NAME sections announce.
for page in $(pages); do
	sed -n '/^\.S[hH] "\{0,1\}NAME/,/^\.S[hH] "\{0,1\}[^N"]/p' "$page"
done | grep -oE 'sframe_[a-z0-9_]+' | sort -u >documented
nm -D --defined-only "$BUILD/libsframe-register/libsframe-register.so" |
	awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' >exported
check 'every exported function has a manual page' subset exported documented 'without a page'
check 'no manual page tells of a function that is not there' subset documented exported 'not exported'

"$sframectl" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p' >commands
sed -n 's/^\.S[sS] "\{0,1\}\([a-z]*\).*/\1/p' "$SOURCE/tools/man/sframectl.1" >sections
check 'every sframectl command has a section in sframectl(1)' subset commands sections 'without a section'
check 'sframectl(1) tells of no command that is not there' subset sections commands 'not a command'
options_documented() {
	local command option status=0
	for command in $(cat commands); do
		"$sframectl" "$command" --help 2>&1 | grep -oE -- '(^|[][ |,(])--[a-z][a-z-]+' |
			grep -oE -- '--.*' | sort -u | while read -r option; do
			[ "$option" = --help ] && continue
			# mdoc: .It Fl -name; man: \-\-name
			grep -qE -- "(Fl.*[ ,|]-|\\\\-\\\\-|--)${option#--}([^a-z-]|\$)" \
				"$SOURCE/tools/man/sframectl.1" || echo "$command $option"
		done
	done >missing
	[ ! -s missing ] || { cat missing; status=1; }
	return $status
}
check 'every option that sframectl helps with is in sframectl(1)' options_documented

# Completion, as bash would call it.
. "$SOURCE/tools/completion/sframectl.bash"
completes() {
	COMP_WORDS=("$sframectl" "$@")
	COMP_CWORD=$#
	_sframectl
	printf '%s\n' "${COMPREPLY[@]}" >replies
}
completes_commands() { completes ''; subset commands replies 'not completed'; }
check 'completion offers every command' completes_commands
completes_prefix() {
	local first
	first=$(head -n 1 commands)
	[ -n "$first" ] || { echo 'sframectl has no command'; return 1; }
	completes "${first:0:3}"
	grep -qx -- "$first" replies || { cat replies; return 1; }
}
check 'completion finds a command by its beginning' completes_prefix
completes_program() { completes record -- ech; grep -qx echo replies; }
check 'completion offers programs behind "--"' completes_program
completes_files() { touch here.so; completes check ./he; grep -qx ./here.so replies; }
check 'completion offers files' completes_files
completes_options() {
	local status=0 command
	for command in $(cat commands); do
		"$sframectl" "$command" --help 2>&1 | grep -q -- ' --[a-z]' || continue
		completes "$command" --
		[ -s replies ] && grep -q '^--' replies || { echo "none for $command"; status=1; }
	done
	return $status
}
check 'completion offers the options of each command' completes_options
done_testing
