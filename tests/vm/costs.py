#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What the series costs, in instructions: programs that register nothing, and registrations.

QEMU's -icount makes the guest's clock count instructions, so figures repeat
and the two kernels can be compared by one boot each. Writes build/costs.json. TAP.
"""
import json
import os
import re
import subprocess

import vm

# Percent that a process without registrations may cost more.
BOUND = 0.5
MOST, BYTES = 50000, 256
CALLS = {'fork_exit': 'fork and exit', 'mmap_munmap': 'mmap and munmap', 'fork_exec': 'fork, exec and exit'}


def figures(text):
    return {name: int(value) for name, value in re.findall(r'^(\w+) (-?\d+)$', text, re.M)}


def compiled():
    os.makedirs(vm.OUT, exist_ok=True)
    program = os.path.join(vm.OUT, 'costs')
    subprocess.run(['gcc', '-O2', '-static', '-Wall', '-Wextra', '-Werror',
                    '-I' + os.path.join(vm.TOP, 'libsframe-register', 'core'),
                    '-o', program, os.path.join(vm.PROGRAMS, 'costs.c')], check=True)
    return program


def measured(tap, program, series, what):
    status, output, errors = vm.boot(f'/costs {what}', series=series, timeout=600,
                                     arguments=['--icount', '--file', f'{program}=/costs',
                                                # Where the stack lies decides how many pages a fork copies.
                                                '--append', 'norandmaps'])
    found = figures(output)
    tap.point(status == 0 and found, f'{series}, {what}: runs, no complaint in the kernel log',
              *([output, errors] if status else []))
    return found


def main():
    vm.require(series=('patched', 'unpatched'))
    tap = vm.Tap()
    program = compiled()
    plain, patched = (measured(tap, program, series, 'calls') for series in ('unpatched', 'patched'))
    for key, name in CALLS.items():
        old, new = plain.get(key, 0), patched.get(key, 0)
        more = 100.0 * (new - old) / old if old else float('inf')
        tap.point(more <= BOUND, f'{name}, nothing registered: at most {BOUND} % more than without the series',
                  f'{old} instructions without, {new} with: {more:+.2f} %')
    registered = measured(tap, program, 'patched', 'register')
    pair = registered.get('mmap_munmap', 0)
    for call in ('register', 'unregister'):
        few, some, many = (registered.get(f'{call}_{count}', 0) for count in (10, 1000, MOST))
        tap.point(0 < many < 3 * few, f'{call}: among {MOST} less than 3 times what it costs among 10',
                  f'{few} among 10, {some} among 1000, {many} among {MOST}; mmap and munmap of a page: {pair}')
    size = registered.get('bytes_per_registration', 0)
    tap.point(0 < size <= BYTES, f'a registration takes at most {BYTES} bytes of kernel memory', f'{size} bytes')
    with open(os.path.join(vm.BUILD, 'costs.json'), 'w') as out:
        json.dump({'unpatched': plain, 'patched': patched, 'registrations': registered}, out, indent=1)
        out.write('\n')
    tap.end()


if __name__ == '__main__':
    main()
