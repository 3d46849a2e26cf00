# SPDX-License-Identifier: MIT
# work.pl SECONDS: recursion, sorting by a function, and regular expressions.
use strict;
use warnings;

sub climb { my $depth = shift; return $depth ? 1 + climb($depth - 1) : 0 }

my $end = time + $ARGV[0];
while (time < $end) {
	my @words = map { join '', map { chr(97 + $_ % 26) } $_ .. $_ + 5 } 1 .. 200;
	my @sorted = sort { length($a) <=> length($b) || reverse($a) cmp reverse($b) } @words;
	s/([aeiou])(.)/climb(20) . uc($2)/ge for @sorted;
}
