# SPDX-License-Identifier: MIT
"""What the tests in the virtual machine share: kernels, programs, TAP, samples."""
import base64
import gzip
import os
import re
import shutil
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, 'programs')
OUT = os.path.join(TOP, 'build', 'vm')
KERNELS = os.environ.get('SFRAME_KERNEL_DIR', os.path.join(TOP, 'build', 'kernel'))
TOOLCHAIN = os.environ.get('SFRAME_TOOLCHAIN_DIR', os.path.join(TOP, 'build', 'toolchain'))
BUILD = os.environ.get('SFRAME_BUILD_DIR', os.path.join(TOP, 'build'))
BOOT = os.path.join(TOP, 'kernel', 'sframe_syscall', 'boot')
AUDIT = os.path.join(BUILD, 'rtld-audit', 'libsframe-audit.so')
SFRAMECTL = os.path.join(BUILD, 'tools', 'sframectl')
GUEST_AUDIT = '/usr/lib/sframe/libsframe-audit.so'
# Where the auditor finds synthesized sections in the guest.
GUEST_CACHE = '/var/cache/xdg'


class Tap:
    """Points as they come; the plan at the end."""

    def __init__(self):
        self.count = 0
        self.failed = 0

    def point(self, passed, name, *diagnosis):
        self.count += 1
        self.failed += not passed
        for text in diagnosis:
            for line in str(text).splitlines():
                print(f'# {line}')
        print(f"{'' if passed else 'not '}ok {self.count} - {name}", flush=True)

    def end(self):
        print(f'1..{self.count}')
        sys.exit(1 if self.failed else 0)


def skip_all(reason):
    print(f'1..0 # SKIP {reason}')
    sys.exit(0)


def kernel(series='patched'):
    path = os.path.join(KERNELS, series, 'bzImage')
    return path if os.path.exists(path) else None


def perf():
    path = os.path.join(KERNELS, 'perf')
    return path if os.path.exists(path) else None


def require(*, series=('patched',), with_perf=False, with_toolchain=False):
    """End with a skip where something is missing."""
    if not shutil.which('qemu-system-x86_64'):
        skip_all('qemu-system-x86 is not installed')
    if not os.path.exists('/bin/busybox'):
        skip_all('busybox-static is not installed')
    for name in series:
        if not kernel(name):
            skip_all(f'no {name} kernel in {os.path.relpath(KERNELS, TOP)}: '
                     'kernel/sframe_syscall/build makes it')
    if with_perf and not perf():
        skip_all('no perf: kernel/sframe_syscall/build --perf makes it')
    if with_toolchain and not os.path.exists(os.path.join(TOOLCHAIN, 'stamp')):
        skip_all('no test toolchain: tests/toolchain/fetch gets it')


def compiled(directory, native, frame_pointers=False):
    """host, places, libspin.so and plugins, without frame pointers unless asked; native: with .sframe of binutils."""
    directory = os.path.join(OUT, directory)
    os.makedirs(directory, exist_ok=True)
    flags = ['-O2', '-fno-omit-frame-pointer' if frame_pointers else '-fomit-frame-pointer', '-fPIC', '-fcf-protection=none', '-Wall', '-Wextra', '-Werror']
    if native:
        wrappers = os.path.join(directory, 'binutils')
        os.makedirs(wrappers, exist_ok=True)
        for tool in ('as', 'ld'):
            path = os.path.join(wrappers, tool)
            with open(path, 'w') as out:
                out.write(f'#!/bin/sh\nexec {TOOLCHAIN}/bin/{tool}-2.47 "$@"\n')
            os.chmod(path, 0o755)
        flags += ['-B' + wrappers, '-Wa,--gsframe-3']

    def gcc(name, *arguments):
        subprocess.run(['gcc', *flags, '-o', os.path.join(directory, name), *arguments], check=True)

    def source(name):
        return os.path.join(PROGRAMS, name)

    plugin = ['-shared', '-fvisibility=hidden', source('plugin.c')]
    linked = ['-pie', f'-L{directory}', '-lspin', '-Wl,-rpath,$ORIGIN', '-lpthread']
    gcc('libspin.so', '-shared', source('library.c'))
    gcc('plugin.so', *plugin)
    gcc('wide.so', '-DPLUGIN_FRAME=200', *plugin)
    gcc('deep.so', '-DPLUGIN_DEPTH=100', *plugin)
    gcc('host', source('host.c'), *linked)
    gcc('places', source('places.c'), *linked)
    return directory


def selftests(*names):
    """The kernel's selftests of these names, compiled statically; paths."""
    source = os.path.join(KERNELS, 'source', '7.3')
    tree = os.path.join(TOP, 'kernel', 'sframe_syscall', 'tree')
    headers = os.path.join(source, 'tools', 'testing', 'selftests')
    if not os.path.exists(os.path.join(headers, 'kselftest_harness.h')):
        skip_all(f'no sources of Linux 7.3 in {os.path.relpath(KERNELS, TOP)}: kernel/sframe_syscall/fetch gets them')
    # The sources name the headers of all selftests by "../".
    directory = os.path.join(OUT, 'selftests', 'sframe')
    os.makedirs(directory, exist_ok=True)
    for name in ('kselftest.h', 'kselftest_harness.h'):
        shutil.copy(os.path.join(headers, name), os.path.dirname(directory))
    for name in os.listdir(os.path.join(tree, 'tools', 'testing', 'selftests', 'sframe')):
        shutil.copy(os.path.join(tree, 'tools', 'testing', 'selftests', 'sframe', name), directory)
    # This machine's own header may be older than deferred call chains.
    new = os.path.join(OUT, 'selftests', 'include')
    os.makedirs(os.path.join(new, 'linux'), exist_ok=True)
    shutil.copy(os.path.join(source, 'tools', 'include', 'uapi', 'linux', 'perf_event.h'), os.path.join(new, 'linux'))
    paths = []
    for name in names:
        paths.append(os.path.join(directory, name))
        subprocess.run(['gcc', '-D_GNU_SOURCE', '-Wall', '-O2', '-pthread', '-static',
                        '-I' + new, '-I' + os.path.join(tree, 'include', 'uapi'), '-I' + os.path.join(source, 'tools', 'include'),
                        '-idirafter', os.path.join(source, 'tools', 'include', 'uapi'),
                        '-o', paths[-1], paths[-1] + '.c'], check=True)
    return paths


def boot(command, *, series='patched', arguments=(), timeout=600):
    """Run a shell command line in a guest; (status, output, complaints and errors)."""
    done = subprocess.run([sys.executable, BOOT, '--check-log', '--timeout', str(timeout), *arguments,
                           kernel(series), '--', command], capture_output=True, text=True, errors='replace')
    return done.returncode, done.stdout, done.stderr


def outermost_ranges(path):
    """[start, end) in the file of the functions whose CFI says that they have no caller.

    binutils' readelf is the judge: a rule "undefined" for the return address.
    """
    text = subprocess.run(['readelf', '-lW', '--debug-dump=frames', path], capture_output=True, text=True).stdout
    loads = [[int(field, 16) for field in line.split()[1:6]]
             for line in text.splitlines() if re.match(r'\s+LOAD ', line)]

    def file_offset(address):
        for offset, virtual, _, size, _ in loads:
            if virtual <= address < virtual + size:
                return address - virtual + offset
        return address

    ranges, ends_here, current, cie = [], set(), None, None
    for line in text.splitlines():
        if re.match(r'[0-9a-f]+ [0-9a-f]+ [0-9a-f]+ CIE', line):
            cie, current = line.split()[0], None
            continue
        match = re.match(r'[0-9a-f]+ [0-9a-f]+ [0-9a-f]+ FDE cie=([0-9a-f]+) pc=([0-9a-f]+)\.\.([0-9a-f]+)', line)
        if match:
            start, end = int(match[2], 16), int(match[3], 16)
            current, cie = (file_offset(start), file_offset(start) + end - start), None
            if int(match[1], 16) in ends_here:
                ranges.append(current)
        elif re.search(r'DW_CFA_undefined: r16\b', line):
            if cie is not None:
                ends_here.add(int(cie, 16))
            elif current:
                ranges.append(current)
    return ranges


class Sample:
    def __init__(self, comm):
        self.comm = comm
        self.frames = []    # innermost first: (symbol, object, offset in the object), user space only

    def symbols(self):
        return [frame[0] for frame in self.frames]


MAX_STACK = 500
FIELDS = 'comm,tid,ip,sym,dso,dsoff'


def samples(text):
    """From `perf script --no-inline -F FIELDS`."""
    result, current = [], None
    for line in text.splitlines():
        if not line.strip():
            current = None
            continue
        frame = re.match(r'\s+([0-9a-f]+) (.*) \((.*?)(?:\+0x([0-9a-f]+))?\)$', line)
        if frame and current is not None:
            if '[kernel' in frame[3]:
                continue
            current.frames.append((frame[2], frame[3], int(frame[4] or '0', 16)))
        elif not line[0].isspace():
            current = Sample(line.split()[0])
            result.append(current)
    return [sample for sample in result if sample.frames]


class Outermost:
    """Whether a chain's last frame has no caller, by the CFI of its object."""

    def __init__(self, here):
        self.here = here        # object's path in the guest: path here, where they differ
        self.ranges = {}

    def __call__(self, sample):
        _, name, offset = sample.frames[-1]
        path = self.here.get(name, name)
        if not os.path.exists(path):
            return False
        if path not in self.ranges:
            self.ranges[path] = outermost_ranges(path)
        # Of a call's return address: the call may be the function's last instruction.
        return any(start <= offset < end or (len(sample.frames) > 1 and offset == end)
                   for start, end in self.ranges[path])


def guest_files(directory):
    """Arguments of boot: perf, auditor and the compiled programs, under their own paths."""
    names = ('host', 'places', 'libspin.so', 'plugin.so', 'wide.so', 'deep.so')
    arguments = ['--program', f'{perf()}=/usr/bin/perf', '--file', f'{AUDIT}={GUEST_AUDIT}']
    for name in names:
        arguments += ['--program', os.path.join(directory, name)]
    return arguments


def synthesized(name, files):
    """A cache directory with the sections of these files; --file arguments that put it into the guest."""
    cache = os.path.join(OUT, name)
    os.makedirs(cache, exist_ok=True)
    subprocess.run([SFRAMECTL, 'synth', '--cache', *files], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, env=dict(os.environ, XDG_CACHE_HOME=cache))
    arguments = []
    for directory, _, found in os.walk(cache):
        for file in found:
            full = os.path.join(directory, file)
            arguments += ['--file', f'{full}={GUEST_CACHE}/{os.path.relpath(full, cache)}']
    return arguments


def audited(command):
    return f'env LD_AUDIT={GUEST_AUDIT} XDG_CACHE_HOME={GUEST_CACHE} {command}'


def recorded(scenes, options='-e cpu-clock -F 999 --call-graph fp,defer'):
    """A guest's command line that records each of {name: command} and sends the samples out."""
    # Kernel's and user's frames together; the default of 127 would cut a stack of 100 frames off.
    lines = [f'echo {MAX_STACK} >/proc/sys/kernel/perf_event_max_stack',
             # A slow guest is no reason to sample less.
             'echo 100000 >/proc/sys/kernel/perf_event_max_sample_rate',
             'echo 0 >/proc/sys/kernel/perf_cpu_time_max_percent']
    for name, command in scenes.items():
        lines += [f'perf record -q {options} -o /tmp/perf.data -- {command} >/tmp/out 2>&1 </dev/null',
                  f'echo "=scene= {name} $? $(stat -c %s /tmp/perf.data)"',
                  f'perf script --no-inline --max-stack {MAX_STACK} -i /tmp/perf.data -F {FIELDS} 2>/dev/null | gzip -c | base64',
                  'echo "=output="; cat /tmp/out; echo "=end="; rm -f /tmp/perf.data']
    return '\n'.join(lines)


class Scene:
    def __init__(self, status, size, samples_text, output):
        self.status, self.size, self.output = status, size, output
        self.samples = samples(samples_text)


def scenes_of(output):
    """{name: Scene} of what the guest sent."""
    result = {}
    for match in re.finditer(r'=scene= (\S+) (\d+) (\d*)\n(.*?)=output=\n(.*?)\n?=end=', output, re.S):
        text = gzip.decompress(base64.b64decode(match[4])).decode(errors='replace')
        result[match[1]] = Scene(int(match[2]), int(match[3] or 0), text, match[5])
    return result
