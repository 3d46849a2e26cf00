# SPDX-License-Identifier: MIT
# Shared by ./run and ./test: progress lines and the packages they need.
# Expects $top, the top of the tree.

begin=$(date +%s)

# A line of progress, with the time since the start.
say() {
	local t=$(($(date +%s) - begin))
	printf '[%d:%02d] %s\n' $((t / 60)) $((t % 60)) "$*"
}

die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# The packages of the named groups (build, test, extra).
packages_of() {
	local group
	for group; do
		sed -n "s/^\([a-z0-9.+-]*\)  *# $group:.*/\1/p" "$top/.ci/packages"
	done
}

# Those of the named packages that are not installed.
packages_missing() {
	local package
	for package; do
		case $(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null) in
		ii*) ;;
		*) echo "$package" ;;
		esac
	done
}

on_debian_12() {
	[ -r /etc/os-release ] || return 1
	( . /etc/os-release; [ "${ID:-}" = debian ] && [ "${VERSION_ID:-}" = 12 ] )
}

# Elsewhere packages have other names: ask for the things themselves.
tools_missing() {
	local tool module
	for tool in g++ meson ninja pkg-config python3; do
		command -v "$tool" >/dev/null || echo "$tool"
	done
	for module in libelf libdw "$@"; do
		pkg-config --exists "$module" 2>/dev/null || echo "$module"
	done
	[ -d /usr/include/boost/interprocess ] || echo boost
}

# need GROUP...: all packages of these groups are there, or the script ends.
need() {
	local missing
	if ! on_debian_12; then
		case " $* " in
		*' test '*) missing=$(tools_missing gtest benchmark libunwind) ;;
		*) missing=$(tools_missing) ;;
		esac
		[ -z "$missing" ] || die "not found: ${missing//$'\n'/ }. Install them and try again" \
			"(on Debian 12 as root this script does it by itself)."
		return
	fi
	missing=$(packages_missing $(packages_of "$@"))
	[ -n "$missing" ] || return 0
	missing=${missing//$'\n'/ }
	if [ "$(id -u)" != 0 ]; then
		local hard=$(packages_missing $(packages_of ${*/extra/}))
		echo "Not installed: $missing. To install:"
		echo "  sudo apt-get install --no-install-recommends $missing"
		[ -z "$hard" ] || exit 1
		echo "Going on without: what needs them is skipped."
		return
	fi
	say "installing $missing"
	mkdir -p "$top/build/logs"
	# Old lists may still do where no mirror answers.
	apt-get update </dev/null >"$top/build/logs/apt.log" 2>&1 ||
		say "apt-get update failed (see build/logs/apt.log); trying with the lists there are"
	DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing \
		</dev/null >>"$top/build/logs/apt.log" 2>&1 || {
		tail -n 5 "$top/build/logs/apt.log" >&2
		die "apt-get install failed; the whole output is in build/logs/apt.log"
	}
	say "installed"
}

# Debian's python3, not one of a version manager's shims: meson runs by it too.
python=/usr/bin/python3
[ -x "$python" ] || python=python3

# logged NAME COMMAND...: output to build/logs/NAME.log; its end is shown on failure.
logged() {
	local log=$top/build/logs/$1.log
	shift
	mkdir -p "${log%/*}"
	"$@" </dev/null >"$log" 2>&1 || {
		{ grep -A 12 '^FAILED:' "$log" || tail -n 40 "$log"; } | head -n 60 >&2
		printf '%s: failed: %s (whole output in %s)\n' "${0##*/}" "$*" "${log#"$top/"}" >&2
		return 1
	}
}
