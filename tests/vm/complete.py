#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Call chains of perf in a virtual machine: complete, and the right functions in them.

    complete.py [c-programs|places|python|cold]

Programs run under the patched kernel with `perf record --call-graph fp,defer`.
A sample is complete if its last frame has no caller by the CFI of its object,
as binutils' readelf shows it. The unpatched kernel's figure stands beside it
where that kernel was built. TAP.
"""
import os
import re
import sys

import vm

AIM = 99.0


def percent(part, whole):
    return 100.0 * part / whole if whole else 0.0


def after(symbols, top):
    """The chain from the first frame named top outwards."""
    return symbols[symbols.index(top):] if top in symbols else None


# What calls what, from the leaf outwards; threads end where libc's begin.
PLUGIN_CHAIN = ['plugin_leaf', 'plugin_2', 'plugin_1', 'recurse', 'plugin_entry', 'last', 'library_2', 'library_1',
                'library_entry', 'enter', *(f'host_{i}' for i in range(8, 0, -1)), 'serve']


def plugin_chain(depth):
    at = PLUGIN_CHAIN.index('recurse')
    return PLUGIN_CHAIN[:at] + ['recurse'] * (depth + 1) + PLUGIN_CHAIN[at + 1:]


def wrong_chains(samples, chain):
    """Samples with the chain's leaf whose frames differ from the chain."""
    seen = wrong = 0
    example = None
    for sample in samples:
        symbols = after(sample.symbols(), chain[0])
        if symbols is None:
            continue
        seen += 1
        # The compiler may or may not inline worker() into main().
        rest = [name for name in symbols[len(chain):] if name in PLUGIN_CHAIN]
        if symbols[:len(chain)] != chain or rest:
            wrong += 1
            example = example or ' '.join(symbols)
    return seen, wrong, example


def holds(chain, expected):
    """Whether each of expected (a name or a set of names) follows in this order, next to each other."""
    names = [re.sub(r'@plt$', '', name) for name in chain]
    for start in range(len(names)):
        part = names[start:start + len(expected)]
        if len(part) == len(expected) and all(p in (e if isinstance(e, set) else {e})
                                              for p, e in zip(part, expected)):
            return True
    return False


class Judge:
    def __init__(self, tap, here=None):
        self.tap = tap
        self.outermost = vm.Outermost(here or {})

    def complete(self, scene):
        return sum(self.outermost(sample) for sample in scene.samples)

    def judge(self, label, scene, beside, least, skip_loader=False):
        """At least AIM percent complete."""
        if scene is None or scene.status != 0:
            self.tap.point(False, f'{label}: runs', scene.output if scene else 'no such scene in the output')
            return
        count, whole = len(scene.samples), self.complete(scene)
        note = f'{label}: {whole} of {count} samples complete, {percent(whole, count):.2f} %'
        if beside:
            note += f'; unpatched {percent(self.complete(beside), len(beside.samples)):.2f} %'
        ends = {}
        for sample in scene.samples:
            if not self.outermost(sample):
                name, dso, offset = sample.frames[-1]
                key = f'{name} ({os.path.basename(dso)}+{offset:#x}), top {sample.frames[0][0]}'
                ends[key] = ends.get(key, 0) + 1
        worst = sorted(ends.items(), key=lambda item: -item[1])[:6]
        self.tap.point(count >= least and percent(whole, count) >= AIM,
                       f'{label}: at least {AIM:g} % of at least {least} samples are complete',
                       note, *(f'{n} end in {key}' for key, n in worst))


def record(scenes, arguments, single_step=False, timeout=600):
    """(patched, unpatched) scenes; the second empty without that kernel."""
    extra = ['--single-step'] if single_step else []
    status, output, errors = vm.boot(vm.recorded(scenes), arguments=arguments + extra, timeout=timeout)
    found = vm.scenes_of(output)
    other = {}
    if vm.kernel('unpatched'):
        other = vm.scenes_of(vm.boot(vm.recorded(scenes), series='unpatched', arguments=arguments + extra,
                                     timeout=timeout)[1])
    return status, found, other, errors


def c_programs(tap):
    judge = Judge(tap)
    for kind in ('native', 'plain'):
        directory = vm.compiled(kind, kind == 'native')
        label = 'sections of binutils' if kind == 'native' else 'synthesized sections'
        plugin, wide, deep = (os.path.join(directory, name) for name in ('plugin.so', 'wide.so', 'deep.so'))
        host = os.path.join(directory, 'host')
        cache = vm.synthesized('cache', CACHED)
        scenes = {
            'plugin': vm.audited(f'{host} 280000 {plugin}'),
            'deep': vm.audited(f'{host} 260000 {deep}'),
            'reload': vm.audited(f'{host} 90000 {plugin} {wide} {plugin} {deep} {wide}'),
        }
        status, found, other, errors = record(scenes, vm.guest_files(directory) + cache)
        tap.point(status == 0, f'{label}: the kernel log has no complaint', errors)
        for name, least in (('plugin', 500), ('deep', 500), ('reload', 500)):
            judge.judge(f'{label}, {name}', found.get(name), other.get(name), least)
        for name, depth in (('plugin', 0), ('deep', 100)):
            seen, wrong, example = wrong_chains(found[name].samples if name in found else [], plugin_chain(depth))
            tap.point(seen >= 300 and wrong == 0, f'{label}, {name}: all of its functions, in order, no other',
                      f'{seen} samples, {wrong} wrong', example or '')
        if 'reload' in found:
            places = re.findall(r'at (0x[0-9a-f]+)', found['reload'].output)
            tap.point(len(places) == 5 and len(set(places)) < 5,
                      f'{label}, reload: a plugin came to lie where another had been', ' '.join(places))
            seen = wrong = 0
            example = None
            for sample in found['reload'].samples:
                symbols = after(sample.symbols(), 'plugin_leaf')
                if symbols is None:
                    continue
                seen += 1
                if symbols[:len(PLUGIN_CHAIN)] != PLUGIN_CHAIN and \
                        symbols[:len(PLUGIN_CHAIN) + 100] != plugin_chain(100):
                    wrong += 1
                    example = example or ' '.join(symbols)
            tap.point(seen >= 300 and wrong == 0, f'{label}, reload: never by the rules of another plugin',
                      f'{seen} samples, {wrong} wrong', example or '')


CACHED = [vm.AUDIT, '/lib/x86_64-linux-gnu/libc.so.6', '/lib64/ld-linux-x86-64.so.2']
ROUNDS = {'handler': 600, 'nested': 500, 'vdso': 2200, 'plt': 8000, 'edges': 500}


class Place:
    """Samples whose innermost frame is in the place, and the callers that each must have; scene is the process."""

    def __init__(self, name, scene, inside, callers, least=20):
        self.name, self.scene, self.inside, self.callers, self.least = name, scene, inside, callers, least


def named(name):
    return lambda sample: sample.frames[0][0] == name


PLACES = (
    Place('in a signal handler', 'handler', named('burn'), [['burn', 'in_handler', 'inner_handler'],
                                                            ['interrupted', 'main']], 100),
    Place('in a handler that interrupted a handler', 'nested', named('burn'),
          [['burn', 'in_handler', 'inner_handler'], ['outer_handler'], ['interrupted', 'main']], 100),
    Place('in the vDSO', 'vdso', lambda sample: 'vdso' in sample.frames[0][1], [['time_of_day', 'main']], 100),
    Place('in a PLT stub', 'plt', named('library_empty@plt'), [['library_empty', 'through_plt', 'main']]),
    Place('in a function of one instruction, its first and last', 'edges', named('edge_ret'),
          [['edge_ret', 'edges', 'main']]),
    # perf names the return address, which is another function's.
    Place('behind a call that ends a function', 'edges', named('burn'),
          [['burn', 'edge_noreturn', 'edge_behind', 'edges', 'main']], 100),
)


def places(tap):
    """One instruction at a time, so that the clock hits each."""
    judge = Judge(tap)
    directory = vm.compiled('native', True)
    cache = vm.synthesized('cache', CACHED)
    program = os.path.join(directory, 'places')
    # One recording: to start perf takes longer here than all of the work.
    script = ' && '.join(f'{program} {name} {rounds}' for name, rounds in ROUNDS.items())
    status, found, other, errors = record({'places': vm.audited(f"sh -c '{script}'")},
                                          vm.guest_files(directory) + cache, single_step=True)
    tap.point(status == 0, 'places: the kernel log has no complaint', errors)
    for place in PLACES:
        def inside(scenes):
            scene = scenes.get('places')
            return [s for s in scene.samples if s.comm == place.scene and place.inside(s)] if scene else []

        samples, beside = inside(found), inside(other)
        whole = sum(judge.outermost(sample) for sample in samples)
        wrong = [s for s in samples if not all(holds(s.symbols(), run) for run in place.callers)]
        note = f'{whole} of {len(samples)} samples complete, {percent(whole, len(samples)):.2f} %, {len(wrong)} wrong'
        if beside:
            note += f'; unpatched {percent(sum(map(judge.outermost, beside)), len(beside)):.2f} %'
        tap.point(len(samples) >= place.least and percent(whole, len(samples)) >= AIM and not wrong,
                  f'{place.name}: complete, by the right callers', note,
                  ' '.join(wrong[0].symbols()) if wrong else '')


def python_objects():
    """What python3 with the workload's modules maps."""
    import subprocess
    workload = os.path.join(vm.TOP, 'demos', 'python-workload.py')
    code = ("import runpy, sys; sys.argv = [%r, '--import-only']\n"
            "try: runpy.run_path(%r, run_name='__main__')\n"
            "except SystemExit: pass\n"
            "print('\\n'.join(sorted({l.split()[5] for l in open('/proc/self/maps') "
            "if ' r-xp ' in l and len(l.split()) > 5 and l.split()[5][0] == '/'})))") % (workload, workload)
    out = subprocess.run(['/usr/bin/python3', '-c', code], capture_output=True, text=True, check=True).stdout
    return [line for line in out.splitlines() if line.startswith('/')]


def python(tap, warm=True):
    judge = Judge(tap)
    workload = os.path.join(vm.TOP, 'demos', 'python-workload.py')
    objects = python_objects()
    tap.point(sum('lib-dynload' in name for name in objects) >= 20, 'python: maps at least 20 extension modules',
              f'{len(objects)} objects')
    directory = vm.compiled('native', True)
    arguments = vm.guest_files(directory) + ['--program', '/usr/bin/python3', '--tree', '/usr/lib/python3.11',
                                             '--file', workload, '--memory', '2048']
    for name in objects:
        arguments += ['--file', name]
    if warm:
        arguments += vm.synthesized('cache-python', [vm.AUDIT, *objects])
    label = 'python, warm cache' if warm else 'python, cold'
    scenes = {'python': vm.audited(f'/usr/bin/python3 {workload} --seconds 15')}
    status, found, other, errors = record(scenes, arguments, timeout=900)
    tap.point(status == 0, f'{label}: the kernel log has no complaint', errors)
    judge.judge(label, found.get('python'), other.get('python'), 1000)


def main():
    vm.require(with_perf=True, with_toolchain=True)
    tap = vm.Tap()
    which = sys.argv[1] if len(sys.argv) > 1 else 'c-programs'
    {'c-programs': c_programs, 'places': places, 'python': python,
     'cold': lambda t: python(t, warm=False)}[which](tap)
    tap.end()


if __name__ == '__main__':
    main()
