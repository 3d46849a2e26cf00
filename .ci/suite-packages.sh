# SPDX-License-Identifier: MIT
# Shared by the scripts that take packages of another Debian suite without
# touching this machine's own: private lists and cache under $dir/apt, packages
# in $dir/debs. As an ordinary user or root. Expects $dir, say() and die().

# The mirror this machine itself uses for Debian, in either format of sources.
find_mirror() {
	. /etc/os-release
	cat /etc/apt/sources.list.d/*.sources 2>/dev/null |
		awk -v suite="${VERSION_CODENAME:-none}" '
			tolower($1) == "uris:" { uri = $2 }
			tolower($1) == "suites:" { for (i = 2; i <= NF; i++) if ($i == suite) found = 1 }
			/^$/ || tolower($1) == "types:" { if (found && uri) exit; uri = ""; found = 0 }
			END { if (found && uri) print uri }'
	cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
		sed 's/\[[^]]*\]//' |
		awk -v suite="${VERSION_CODENAME:-none}" '$1 == "deb" && $3 == suite { print $2 }'
}

# apt of one suite, with lists, cache and an empty package state of its own.
use_suite() {
	suite=$1
	mirror=${SFRAME_DEBIAN_MIRROR:-$(find_mirror | head -n 1)}
	[ -n "$mirror" ] || die "no Debian mirror in /etc/apt"
	apt=$dir/apt/$suite
	mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/parts" "$dir/debs/$suite"
	: >"$apt/status"
	cat >"$apt/parts/debian.sources" <<-END
		Types: deb
		URIs: $mirror
		Suites: $suite
		Components: main
		Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
	END
}

# A mirror that stands still for a month still has signed packages.
with_apt() {
	program=$1
	shift
	LC_ALL=C "$program" -q -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$apt/parts" \
		-o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null \
		-o Dir::State="$apt" -o Dir::State::Lists="$apt/lists" \
		-o Dir::State::Status="$apt/status" -o Dir::Cache="$apt/cache" \
		-o APT::Architecture=amd64 -o APT::Architectures=amd64 -o APT::Sandbox::User= \
		-o APT::Update::Error-Mode=any -o Acquire::Check-Valid-Until=false \
		-o Acquire::Languages=none -o Acquire::Retries=2 -o Acquire::http::Timeout=30 \
		-o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false \
		-o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false "$@"
}

# update_lists SUITE: lists are read, with_apt works on this suite.
update_lists() {
	use_suite "$1"
	log=$apt/log
	say "reading $suite's package list"
	with_apt apt-get update -qq >"$log" 2>&1 ||
		die "cannot read $suite's package list ($(sed -n 's/^[EW]: //p' "$log" | head -n 1))"
}

# download PACKAGE...: of the suite whose lists were read, into $dir/debs/SUITE.
download() {
	rm -f "$dir/debs/$suite"/*.deb
	(cd "$dir/debs/$suite" && with_apt apt-get download "$@" >"$log" 2>&1) ||
		die "cannot download from $suite ($(sed -n 's/^[EW]: //p' "$log" | head -n 1))"
}
