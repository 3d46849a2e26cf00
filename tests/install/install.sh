#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What a user of the library gets: headers, pkg-config file and library as
# `meson install` lays them down, used from C11 and C++20.
. "$(dirname "$0")/tap.sh"
here=$SOURCE/tests/install
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

root=$dir/root
if ! meson install -C "$BUILD" --no-rebuild --destdir "$root" >install.log 2>&1; then
	cat install.log
	echo "Bail out! meson install failed"
	exit 1
fi
pc=$(find "$root" -name libsframe-register.pc)
libdir=$(dirname "$(dirname "$pc")")
prefix=${libdir%/lib*}
export PKG_CONFIG_LIBDIR=${pc%/*} PKG_CONFIG_SYSROOT_DIR=$root
cflags=$(pkg-config --cflags libsframe-register)
libs=$(pkg-config --libs libsframe-register)
library=$libdir/libsframe-register.so

c11() { cc -std=c11 -pedantic -Wall -Wextra -Werror $cflags "$@"; }
cxx20() { c++ -std=c++20 -pedantic -Wall -Wextra -Werror $cflags "$@"; }

builds_and_runs() {
	local compiler=$1 source=$2
	"$compiler" -O1 -o program "$source" $libs && LD_LIBRARY_PATH=$libdir ./program
}
check 'a C11 program builds with pkg-config and sees its stack' builds_and_runs c11 "$here/use.c"
check 'a C++20 program builds with pkg-config and sees its stack' builds_and_runs cxx20 "$here/use.cc"

for header in "$prefix"/include/sframe/*.h; do
	name=sframe/${header##*/}
	echo "#include <$name>" >alone.c
	cp alone.c alone.cc
	check "<$name> compiles alone as C11" c11 -fsyntax-only alone.c
	check "<$name> compiles alone as C++20" cxx20 -fsyntax-only alone.cc
done
for header in "$prefix"/include/sframe/*.hpp; do
	[ -e "$header" ] || continue
	name=sframe/${header##*/}
	echo "#include <$name>" >alone.cc
	check "<$name> compiles alone as C++20" cxx20 -fsyntax-only alone.cc
done

# Functions that the headers declare, by the compiler's own account.
for header in "$prefix"/include/sframe/*.h; do echo "#include <sframe/${header##*/}>"; done >all.c
cc -std=c11 $cflags -fsyntax-only -aux-info declarations all.c
sed -n 's,^/\* [^ ]*/sframe/[a-z_]*\.h:.*[ *]\(sframe_[a-z0-9_]*\) (.*,\1,p' declarations >declared
nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' >exported
sed 's/@.*//' exported >exported-names
check 'every exported symbol is declared in a public header' \
	subset exported-names declared 'exported but not declared'
check 'every declared function is exported' subset declared exported-names 'declared but not exported'

versioned() {
	local unversioned
	unversioned=$(grep -v '@@SFRAME_REGISTER_[0-9.]*$' exported) || return 0
	echo "$unversioned"
	return 1
}
check 'every exported symbol has a version node' versioned
# Names of the map's global lists, patterns as regular expressions.
sed -n '/global:/,/local:/s/^\t*\([a-z_0-9*]*\);.*/\1/p' "$SOURCE/libsframe-register/libsframe-register.map" |
	sed 's/\*/.*/' >map
map_is_used() {
	local pattern status=0
	while read -r pattern; do
		grep -qx "$pattern" exported-names || { echo "nothing exported for $pattern"; status=1; }
	done <map
	return $status
}
check 'every name in the version script exists' map_is_used

needs_no_cxx() {
	local object status=0
	for object in $(find "$root" -name 'libsframe*.so*' -type f); do
		if readelf -dW "$object" | grep -E 'NEEDED.*(libstdc\+\+|libgcc_s)'; then
			echo "in ${object##*/}"
			status=1
		fi
	done
	return $status
}
check 'no installed library needs a C++ runtime' needs_no_cxx
soname() { readelf -dW "$library" | grep -q 'SONAME.*\[libsframe-register\.so\.0\]'; }
check 'the soname carries the ABI version' soname
sframectl_runs() { LD_LIBRARY_PATH=$libdir "$prefix/bin/sframectl" --version | grep -q '^sframectl [0-9]'; }
check 'the installed sframectl runs' sframectl_runs

exec_stack() {
	local object status=0
	for object in $(find "$root" -name 'libsframe*.so*' -type f) "$prefix/bin/sframectl"; do
		readelf -lW "$object" | grep -q 'GNU_STACK.* RW ' || { echo "${object##*/}"; status=1; }
	done
	return $status
}
check 'nothing installed asks for an executable stack' exec_stack
done_testing
