# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# What the series consists of; read by apply, export and check-series, which set
# $here to this directory.

# series_patches TREE: the patches for that tree, in order. Where a release needs
# another context or another number, patches/RELEASE/ has that patch again.
series_patches() {
	release=$(sed -n 's/^VERSION = //p; s/^PATCHLEVEL = /./p' "$1/Makefile" | head -n 2 | tr -d '\n')
	for patch in "$here"/patches/*.patch; do
		variant=$here/patches/$release/${patch##*/}
		[ -f "$variant" ] && patch=$variant
		echo "$patch"
	done
}

# series_adds PATCH: the new files that come with it, as lines "PATH SOURCE".
series_adds() {
	sed -n '/^---$/q; s/^Adds: //p' "$1" | while read -r path; do
		case ${path##*/} in
		sframe_core.h | sframe_format.h)
			echo "$path $here/../../libsframe-register/core/${path##*/}" ;;
		*)
			[ -e "$here/tree/$path" ] || { echo "$1 adds $path, which is not in tree/" >&2; exit 1; }
			(cd "$here/tree" && find "$path" -type f | sort) |
				while read -r file; do echo "$file $here/tree/$file"; done ;;
		esac
	done
}
