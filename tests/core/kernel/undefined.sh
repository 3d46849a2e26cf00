#!/bin/sh
# SPDX-License-Identifier: MIT
#
# undefined.sh OBJECT: the core compiled for the kernel asks for nothing that
# the kernel does not have.
echo 1..1
extra=$(nm -u "$1" | awk 'NF == 2 && $2 !~ /^(mem(cpy|move|set|cmp)|copy_from_user_nofault)$/ { print $2 }')
if [ -z "$extra" ]; then
	echo "ok 1 - no symbols but memory functions"
else
	echo "not ok 1 - no symbols but memory functions"
	echo "# undefined:" $extra
fi
