# SPDX-License-Identifier: MIT
# work.sh SECONDS: recursion of shell functions and substitution in strings.
climb() {
	if [ "$1" -gt 0 ]; then
		climb $(($1 - 1))
	else
		for word in a bb ccc dddd; do text=${text/$word/x$word}; done
	fi
}
end=$((SECONDS + $1))
while [ $SECONDS -lt $end ]; do
	text=a-bb-ccc-dddd
	climb 25
done
