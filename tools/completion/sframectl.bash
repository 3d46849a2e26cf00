# SPDX-License-Identifier: MIT
#
# bash completion of sframectl. Commands and options come from sframectl's own
# help, so that this file cannot fall behind it.

# The commands that `sframectl --help` lists, one a line.
_sframectl_commands() {
	"$1" --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p'
}

# The options that `sframectl COMMAND --help` names.
_sframectl_options() {
	"$1" "$2" --help 2>/dev/null | grep -oE -- '(^|[][ |,(])--?[A-Za-z][A-Za-z-]*' |
		grep -oE -- '--?[A-Za-z].*' | sort -u
}

# Processes that export a registry.
_sframectl_pids() {
	local segment pid
	for segment in /dev/shm/sframe.*.*.*; do
		pid=${segment#/dev/shm/sframe.*.}
		pid=${pid%%.*}
		[ -d "/proc/$pid" ] && echo "$pid"
	done
}

_sframectl() {
	local program=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]} i
	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_sframectl_commands "$program") --help --version" -- "$current")
		return
	fi
	# Behind "--" stands a program with arguments of its own.
	for ((i = 2; i < COMP_CWORD; i++)); do
		[ "${COMP_WORDS[i]}" = -- ] || continue
		if [ $((i + 1)) = "$COMP_CWORD" ]; then
			mapfile -t COMPREPLY < <(compgen -c -- "$current")
		else
			mapfile -t COMPREPLY < <(compgen -f -- "$current")
		fi
		return
	done
	case $current in
	-*)
		mapfile -t COMPREPLY < <(compgen -W "$(_sframectl_options "$program" "${COMP_WORDS[1]}")" -- "$current")
		return ;;
	esac
	case ${COMP_WORDS[1]} in
	list) mapfile -t COMPREPLY < <(compgen -W "$(_sframectl_pids)" -- "$current") ;;
	dump) mapfile -t COMPREPLY < <(compgen -W "$(_sframectl_pids)" -- "$current"; compgen -f -- "$current") ;;
	*) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
	esac
}

complete -o filenames -F _sframectl sframectl
