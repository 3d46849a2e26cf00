#!/bin/sh
# SPDX-License-Identifier: MIT
#
# embed.sh FILE NAME OUT: a C array NAME with the bytes of FILE.
set -e
{
	echo "static const unsigned char $2[] = {"
	od -An -v -tu1 "$1" | sed 's/  *\([0-9][0-9]*\)/\1,/g'
	echo "};"
} > "$3"
