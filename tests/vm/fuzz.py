#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Random calls in the virtual machine, against a model and in races.

    fuzz.py [--debug SECONDS] [--seed N]

Runs fuzz_calls of the kernel's selftests: half a minute under the patched kernel,
or, with --debug or SFRAME_TEST_FULL, an hour (or SECONDS) under the kernel with
KASAN, lockdep, kmemleak and fault injection. Each round has a seed of its own,
which is printed: `fuzz_calls SECONDS SEED` makes the same calls again. TAP.
"""
import argparse
import os
import random
import re

import vm

ROUND = 120


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--debug', type=int, metavar='SECONDS',
                        default=3600 if os.environ.get('SFRAME_TEST_FULL') else 0)
    parser.add_argument('--seed', type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    series = 'patched-debug' if options.debug else 'patched'
    vm.require(series=(series,))
    (program,) = vm.selftests('fuzz_calls')
    rounds = max(1, options.debug // ROUND)
    seconds = options.debug // rounds if options.debug else 30
    command = '\n'.join([
        f'for seed in $(seq {options.seed} {options.seed + rounds - 1}); do',
        f'  echo "=round= $seed"; {program} {seconds} $seed; echo "=end="',
        'done'])
    tap = vm.Tap()
    # Under the checks all but the clock runs slower.
    status, output, errors = vm.boot(command, series=series, timeout=900 + 3 * rounds * seconds,
                                     arguments=['--program', program, '--memory', '2048'])
    found = dict(re.findall(r'^=round= (\d+)\n(.*?)^=end=$', output, re.S | re.M))
    tap.point(len(found) == rounds, f'{rounds} rounds of {seconds} s end', *([] if len(found) == rounds else [output[-4000:]]))
    for phase in ('model', 'faults', 'races'):
        passed = [seed for seed, text in found.items() if re.search(rf'^ok \d+ {phase}$', text, re.M)]
        skipped = [seed for seed, text in found.items() if re.search(rf'^ok \d+ # SKIP {phase}', text, re.M)]
        failed = [seed for seed in found if seed not in passed and seed not in skipped]
        if skipped and not options.debug:
            # The kernel without checks has no fault injection: that part is the debug kernel's.
            continue
        totals = {}
        for text in found.values():
            for line in re.findall(rf'^# {phase}: (\d.*)$', text, re.M):
                for number, what in re.findall(r'(\d+) ([^,]+)', line):
                    totals[what] = totals.get(what, 0) + int(number)
        wrong = [f'seed {seed}: {line}' for seed in failed for line in found[seed].splitlines() if line.startswith('#')]
        tap.point(found and not failed and not skipped, f'{phase}: nothing differs from what was expected',
                  ', '.join(f'{number} {what}' for what, number in totals.items()), *wrong[:40])
    tap.point(status == 0, 'the kernel log has no complaint', errors)
    tap.end()


if __name__ == '__main__':
    main()
