#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The library's choice of backend where the system calls are, and where they are not.

A program under the auditor waits while /proc/PID/sframe, /proc/PID/maps and
`sframectl list` are read from beside it. TAP.
"""
import os
import re
import subprocess

import vm

COMMAND = '''
{environment} {program} {rounds} {plugin} >/tmp/out 2>&1 &
pid=$!
# The plugin is the last that is loaded.
for i in $(seq 300); do grep -q {plugin} /proc/$pid/maps && break; sleep 0.1; done
sleep 1
echo =maps=; cat /proc/$pid/maps
echo =sframe=; cat /proc/$pid/sframe
echo =list=; {sframectl} list $pid
kill $pid; wait $pid
echo =run=; env {variables} {sframectl} run -- {program} 50 {plugin} 2>&1; echo "status $?"
echo =sys=; ls /sys/kernel/sframe
echo =end=
'''


def parts(output):
    return {match[1]: match[2] for match in re.finditer(r'^=(\w+)=\n(.*?)(?=^=\w+=$)', output, re.S | re.M)}


class Range:
    def __init__(self, line):
        text, section, size, version, flags = line.split()
        self.start, self.end = (int(part, 16) for part in text.split('-'))
        self.section, self.size = int(section, 16), int(size)
        self.version, self.flags = int(version), int(flags, 16)


class Process:
    def __init__(self, found):
        self.ranges = [Range(line) for line in found.get('sframe', '').splitlines()
                       if re.match(r'[0-9a-f]+-[0-9a-f]+ ', line)]
        self.texts = []     # (start, end, name) of what is mapped executable
        self.maps = []
        for line in found.get('maps', '').splitlines():
            field = line.split()
            start, end = (int(part, 16) for part in field[0].split('-'))
            name = field[5] if len(field) > 5 else ''
            self.maps.append((start, end, name))
            if 'x' in field[1] and name != '[vsyscall]':
                self.texts.append((start, end, name))

    def bare(self):
        """Names of executable mappings that no registration touches."""
        return [name for start, end, name in self.texts
                if not any(r.start < end and start < r.end for r in self.ranges)]

    def of(self, suffix):
        for start, end, name in self.texts:
            if name.endswith(suffix):
                for r in self.ranges:
                    if r.start < end and start < r.end:
                        return r
        return None

    def file_at(self, address):
        return next((name for start, end, name in self.maps if start <= address < end), None)


def poor(directory):
    """host without .sframe but for one function of another object: what exec registers covers nearly nothing."""
    path = os.path.join(directory, 'poor')
    one = os.path.join(directory, 'one')
    with open(one + '.s', 'w') as out:
        out.write('.text\n.globl one\none: .cfi_startproc\nret\n.cfi_endproc\n.section .note.GNU-stack,"",@progbits\n')
    wrappers = '-B' + os.path.join(directory, 'binutils')
    subprocess.run(['gcc', wrappers, '-Wa,--gsframe-3', '-c', '-o', one + '.o', one + '.s'], check=True)
    subprocess.run(['gcc', '-O2', '-fomit-frame-pointer', '-fPIC', '-fcf-protection=none', wrappers, '-pie',
                    '-o', path, os.path.join(vm.PROGRAMS, 'host.c'), one + '.o', f'-L{directory}', '-lspin',
                    '-Wl,-rpath,$ORIGIN', '-lpthread'], check=True)
    return path


def run(program, directory, series, variables=''):
    plugin = os.path.join(directory, 'plugin.so')
    command = COMMAND.format(environment=vm.audited('').replace('env ', f'env {variables} ', 1), program=program,
                             rounds=100000000, plugin=plugin, sframectl=vm.SFRAMECTL,
                             variables=variables)
    cache = vm.synthesized('cache', ['/lib/x86_64-linux-gnu/libc.so.6', '/lib64/ld-linux-x86-64.so.2'])
    arguments = vm.guest_files(directory) + cache + ['--program', program,
                                                     '--program', vm.SFRAMECTL, '--program', vm.AUDIT]
    status, output, errors = vm.boot(command, series=series, arguments=arguments)
    return status, parts(output), output + errors


def kernel_backend(tap, directory):
    host = os.path.join(directory, 'host')
    status, found, everything = run(host, directory, 'patched')
    process = Process(found)
    tap.point(status == 0 and 'end' in everything, 'kernel: the kernel log has no complaint',
              '' if status == 0 else everything)
    bare = process.bare()
    tap.point(len(process.texts) >= 6 and not bare, 'kernel: every executable mapping is registered with the kernel',
              f'{len(process.texts)} mappings, {len(process.ranges)} ranges; not registered: {bare}')
    libc, own = process.of('/libc.so.6'), process.of('/host')
    tap.point(libc is not None and libc.flags & 4 and 'xdg' in (process.file_at(libc.section) or ''),
              'kernel: the section of libc is the cache file, by func_base', found.get('sframe', ''))
    tap.point(own is not None and process.file_at(own.section) == host,
              'kernel: the section of the executable is its own, which exec registered')
    lines = [line for line in found.get('list', '').splitlines() if '.so' in line or 'host' in line]
    tap.point(len(lines) == len(process.ranges) and any(line.endswith('/host') for line in lines), 'kernel: sframectl list shows them too', found.get('list', ''))
    tap.point('status 0' in found.get('run', ''), 'kernel: sframectl run ends with the status of the program',
              found.get('run', ''))

    program = poor(directory)
    headers = subprocess.run(['readelf', '-lW', program], capture_output=True, text=True).stdout
    shipped = re.search(r'GNU_SFRAME\s+\S+ \S+ \S+ (0x[0-9a-f]+)', headers)
    status, found, everything = run(program, directory, 'patched')
    process = Process(found)
    own = process.of('/poor')
    tap.point(shipped is not None and own is not None and process.file_at(own.section) not in (program, None),
              'kernel: a section of few functions that exec registered is replaced by a synthesized one',
              found.get('sframe', everything))


def without_calls(tap, directory):
    host = os.path.join(directory, 'host')
    status, found, everything = run(host, directory, 'unpatched')
    tap.point(status == 0 and 'register_nr' not in found.get('sys', ''), 'unpatched: no such calls',
              '' if status == 0 else everything)
    lines = [line for line in found.get('list', '').splitlines() if '.so' in line or 'host' in line]
    tap.point(len(lines) >= 6, 'unpatched: sframectl list shows what is registered in shared memory',
              found.get('list', ''))
    tap.point('status 0' in found.get('run', ''), 'unpatched: sframectl run ends with the status of the program',
              found.get('run', ''))


def main():
    vm.require(with_perf=True, with_toolchain=True)
    tap = vm.Tap()
    directory = vm.compiled('native', True)
    kernel_backend(tap, directory)
    if vm.kernel('unpatched'):
        without_calls(tap, directory)
    else:
        tap.point(True, 'unpatched # SKIP no unpatched kernel: kernel/sframe_syscall/build --unpatched makes it')
    tap.end()


if __name__ == '__main__':
    main()
