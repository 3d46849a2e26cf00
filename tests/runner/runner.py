#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Run what meson lists, count every case, keep the score over several stages.

    runner.py tests BUILD --stage NAME [--only SUBJECT,...] [--not-suite S] [--jobs N]
    runner.py fuzz BUILD --stage NAME --seconds N [--jobs N]
    runner.py bench BUILD --stage NAME --out FILE
    runner.py note --stage NAME --case CASE --result passed|failed|skipped [--reason TEXT] [--log FILE]
    runner.py summary

`meson test` counts executables; here a GoogleTest case, a TAP point or a fuzz
target is what counts. Each call appends its cases to SCORE, one JSON object a
line; `summary` prints failures and skips, then the totals as the last line.
The exit code of a stage is 0 even if cases failed; that of summary is not.
"""
import argparse
import concurrent.futures
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LOGS = os.path.join(TOP, 'build', 'logs')
SCORE = os.path.join(LOGS, 'score.jsonl')
TAIL_LINES = 25
SKIP_EXIT = 77      # what a plain program returns to be skipped
MAX_LOG = 64 << 20

print_lock = threading.Lock()
score_lock = threading.Lock()
running = set()     # process groups that were started here and live


def record(stage, test, case, result, reason='', log=''):
    """Append one case to the score."""
    with score_lock, open(SCORE, 'a') as score:
        score.write(json.dumps({'stage': stage, 'test': test, 'case': case, 'result': result,
                                'reason': reason, 'log': log}) + '\n')


def say(text):
    with print_lock:
        print(text, flush=True)


def tail(text, lines=TAIL_LINES):
    return '\n'.join(text.rstrip().splitlines()[-lines:])


def introspect(build, what):
    return json.loads(subprocess.check_output(['meson', 'introspect', '--' + what, build]))


def log_path(stage, name):
    return os.path.join(LOGS, stage, name.replace('/', '-') + '.log')


def run(command, log, timeout, env, cwd):
    """Run a command in a process group of its own, output to log.

    Returns (status, seconds); status is the exit code, minus the signal, or
    None after a timeout.
    """
    os.makedirs(os.path.dirname(log), exist_ok=True)
    start = time.monotonic()
    with open(log, 'wb') as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                   env=env, cwd=cwd, start_new_session=True)
        running.add(process.pid)
        try:
            status = process.wait(timeout if timeout > 0 else None)
        except subprocess.TimeoutExpired:
            status = None
        # Also after a normal end: children that a failed test left behind.
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        process.wait()
        running.discard(process.pid)
    return status, time.monotonic() - start


def read_log(log):
    with open(log, 'rb') as file:
        return file.read(MAX_LOG).decode(errors='replace')


def gtest_cases(xml, output):
    """Cases of a GoogleTest program as (name, result, reason).

    The report is whole if the program came to its end; else its output tells
    how far it came.
    """
    try:
        root = ElementTree.parse(xml).getroot()
    except (OSError, ElementTree.ParseError):
        return gtest_cases_of_output(output)
    cases = []
    for case in root.iter('testcase'):
        name = f"{case.get('classname')}.{case.get('name')}"
        failures = [f.get('message') or f.text or '' for f in case.findall('failure')]
        skipped = case.find('skipped')
        if case.get('status') == 'notrun' or case.get('result') == 'suppressed':
            continue
        if failures:
            cases.append((name, 'failed', '\n'.join(failures)))
        elif skipped is not None or case.get('result') == 'skipped':
            message = (skipped.get('message') if skipped is not None else '') or ''
            lines = [line for line in message.splitlines()
                     if line.strip() and not re.match(r'.*:\d+$', line.strip())]
            cases.append((name, 'skipped', ' '.join(lines) or 'no reason given'))
        else:
            cases.append((name, 'passed', ''))
    return cases


def gtest_cases_of_output(output):
    cases, current, text = [], None, []
    for line in output.splitlines():
        match = re.match(r'\[( RUN      |       OK |  FAILED  |  SKIPPED )\] (\S+)', line)
        if not match:
            text.append(line)
            continue
        mark, name = match[1].strip(), match[2].rstrip(',')
        if mark == 'RUN':
            current, text = name, []
        elif name == current:
            result = {'OK': 'passed', 'FAILED': 'failed', 'SKIPPED': 'skipped'}[mark]
            cases.append((name, result, tail('\n'.join(text)) if mark != 'OK' else ''))
            current = None
    if current:
        cases.append((current, 'failed', 'the program ended inside this case\n' +
                      tail('\n'.join(text))))
    return cases


def tap_cases(output):
    """Points of a TAP stream as (name, result, reason)."""
    cases, planned, text = [], None, []
    for line in output.splitlines():
        plan = re.match(r'1\.\.(\d+)\s*(?:#\s*(?:skip\w*)\s*(.*))?$', line, re.I)
        if plan:
            planned = int(plan[1])
            if planned == 0:
                cases.append(('all', 'skipped', plan[2] or 'no reason given'))
            continue
        point = re.match(r'(not )?ok\b\s*(\d*)\s*(?:-\s*)?(.*?)(?:#\s*(skip|todo)\S*\s*(.*))?$',
                         line, re.I)
        if not point:
            text.append(line)
            continue
        name = point[3].strip() or point[2]
        if point[4] and point[4].lower() == 'skip':
            cases.append((name, 'skipped', point[5] or 'no reason given'))
        elif point[1]:
            cases.append((name, 'failed', tail('\n'.join(text))))
        else:
            cases.append((name, 'passed', ''))
        text = []
    if planned is None:
        cases.append(('plan', 'failed', 'no plan (1..N) in the output'))
    elif planned and planned != len(cases):
        cases.append(('plan', 'failed', f'{planned} points planned, {len(cases)} seen'))
    return cases


def cases_of(test, status, output, xml):
    """What a finished program showed, as (name, result, reason)."""
    protocol = test['protocol']
    if protocol == 'gtest':
        cases = gtest_cases(xml, output)
    elif protocol == 'tap':
        cases = tap_cases(output)
    elif status == SKIP_EXIT:
        return [('', 'skipped', tail(output, 1) or 'no reason given')]
    else:
        cases = [('', 'passed', '')] if status == 0 else []
    failed = any(case[1] == 'failed' for case in cases)
    if status is None:
        cases.append(('', 'failed', f"not finished after {test['timeout']} s\n" + tail(output)))
    elif status != 0 and not failed:
        how = f'exit code {status}' if status > 0 else f'signal {signal.Signals(-status).name}'
        cases.append(('', 'failed', f'{how}\n' + tail(output)))
    elif not cases:
        cases.append(('', 'failed', 'no case was run\n' + tail(output)))
    return cases


def environment(extra):
    env = dict(os.environ)
    env.update(extra)
    return env


def run_test(test, stage, timeout_factor):
    name = test['name']
    log = log_path(stage, name)
    xml = log[:-len('.log')] + '.xml'
    if os.path.exists(xml):
        os.unlink(xml)
    env = environment(test['env'])
    if test['protocol'] == 'gtest':
        env['GTEST_OUTPUT'] = 'xml:' + xml
        env['GTEST_COLOR'] = 'no'
    command = test['cmd']
    if name.split('/')[0] in no_aslr:
        command = ['setarch', '-R'] + command
    timeout = test['timeout'] * timeout_factor
    try:
        status, seconds = run(command, log, timeout, env, test['workdir'])
        cases = cases_of(dict(test, timeout=timeout), status, read_log(log), xml)
    except OSError as error:
        seconds, cases = 0, [('', 'failed', f'cannot be started: {error}')]
    for case, result, reason in cases:
        record(stage, name, case, result, reason, os.path.relpath(log, TOP))
    counts = {r: sum(1 for c in cases if c[1] == r) for r in ('passed', 'failed', 'skipped')}
    line = f"  {name:<32} {counts['passed']:>5} passed"
    line += ''.join(f', {counts[r]} {r}' for r in ('failed', 'skipped') if counts[r])
    say(f'{line}  ({seconds:.1f} s)')


no_aslr = set()


def stage_tests(args):
    """All tests that meson lists in a build directory, or those of some subjects."""
    tests = introspect(args.build, 'tests')
    only = set(args.only.split(',')) if args.only else None
    unwanted = set(args.not_suite.split(',')) if args.not_suite else set()
    chosen = []
    for test in tests:
        suites = {s.split(':')[-1] for s in test['suite']}
        if (only and test['name'].split('/')[0] not in only) or suites & unwanted:
            continue
        chosen.append(test)
    if args.no_aslr and subprocess.run(['setarch', '-R', 'true'], stderr=subprocess.DEVNULL,
                                       check=False).returncode == 0:
        no_aslr.update(test['name'].split('/')[0] for test in chosen)
    # The long ones first, so that two jobs end together; the lonely ones last.
    chosen.sort(key=lambda test: (-test['priority'], -test['timeout']))
    together = [test for test in chosen if test['is_parallel']]
    alone = [test for test in chosen if not test['is_parallel']]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(lambda test: run_test(test, args.stage, args.timeout_factor), together))
    for test in alone:
        run_test(test, args.stage, args.timeout_factor)


def fuzz_targets(build):
    """Executables that tests/fuzz/meson.build defines, as {name: path}."""
    return {t['name']: t['filename'][0] for t in introspect(build, 'targets')
            if t['type'] == 'executable' and t['defined_in'].endswith('tests/fuzz/meson.build')}


def run_fuzzer(name, path, args):
    short = re.sub(r'^fuzz[-_]', '', name)
    log = log_path(args.stage, short)
    found = os.path.join(LOGS, args.stage, short + '-')
    corpus = os.path.join(TOP, 'build', 'corpus', short)
    seeds = os.path.join(TOP, 'tests', 'fuzz', 'seeds', short)
    os.makedirs(corpus, exist_ok=True)
    command = [path, f'-max_total_time={args.seconds}', '-timeout=20', '-rss_limit_mb=2560',
               '-print_final_stats=1', f'-artifact_prefix={found}', corpus]
    if not os.path.isdir(seeds):
        record(args.stage, short, '', 'failed', 'no seeds in ' + os.path.relpath(seeds, TOP))
        return
    status, seconds = run(command + [seeds], log, args.seconds * 3 + 300, environment({}), TOP)
    output = read_log(log)
    executed = re.search(r'stat::number_of_executed_units: *(\d+)', output)
    count = int(executed[1]) if executed else 0
    if status == 0 and count and seconds >= args.seconds:
        record(args.stage, short, '', 'passed')
        say(f'  {short:<32} {count} runs without a finding  ({seconds:.0f} s)')
        return
    reason = 'not finished in time' if status is None else f'exit code {status}'
    record(args.stage, short, '', 'failed', f'{reason} after {count} runs\n{tail(output)}',
           os.path.relpath(log, TOP))
    say(f'  {short:<32} FAILED: {reason}')


def stage_fuzz(args):
    targets = fuzz_targets(args.build)
    if not targets:
        record(args.stage, 'targets', '', 'skipped', 'no fuzz target is defined')
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(lambda item: run_fuzzer(*item, args), sorted(targets.items())))


def stage_bench(args):
    """All benchmarks, one after the other; their records become one JSON array."""
    lines = os.path.join(LOGS, args.stage, 'results.jsonl')
    os.makedirs(os.path.dirname(lines), exist_ok=True)
    open(lines, 'w').close()
    for bench in introspect(args.build, 'benchmarks'):
        name = bench['name']
        log = log_path(args.stage, name)
        say(f'  {name}')
        env = environment({**bench['env'], 'SFRAME_BENCH_OUT': lines})
        status, seconds = run(bench['cmd'], log, bench['timeout'], env, bench['workdir'])
        if status == 0:
            record(args.stage, name, '', 'passed')
        elif status == SKIP_EXIT:
            record(args.stage, name, '', 'skipped', tail(read_log(log), 1))
        else:
            why = 'not finished in time' if status is None else f'exit code {status}'
            record(args.stage, name, '', 'failed', f'{why}\n{tail(read_log(log))}',
                   os.path.relpath(log, TOP))
        say(f'  {name:<32} {seconds:.0f} s')
    with open(lines) as file:
        results = [json.loads(line) for line in file if line.strip()]
    with open(args.out, 'w') as file:
        json.dump(results, file, indent=1)
        file.write('\n')
    say(f"\n  {'name':<22} {'value':>12} {'unit':<10} {'peer value':>12}  {'ratio':>7}  peer")
    for r in results:
        say(f"  {r['name']:<22} {r['value']:>12.4g} {r['unit']:<10} {r['peer_value']:>12.4g}  "
            f"{r['ratio']:>7.3f}  {r['peer']}")
    say(f'\n  written to {os.path.relpath(args.out, TOP)}')


def note(args):
    reason = args.reason
    if args.log and args.result == 'failed' and os.path.exists(args.log):
        text = read_log(args.log)
        failed = re.search(r'^FAILED:.*(?:\n.*){0,20}', text, re.M)    # ninja's mark
        reason = (reason + '\n' if reason else '') + (failed[0] if failed else tail(text))
    record(args.stage, args.case, '', args.result, reason,
           os.path.relpath(args.log, TOP) if args.log else '')


def summary(_args):
    cases = []
    if os.path.exists(SCORE):
        with open(SCORE) as score:
            cases = [json.loads(line) for line in score]

    def title(case):
        name = f"{case['test']}: {case['case']}" if case['case'] else case['test']
        return f"[{case['stage']}] {name}"

    skipped = [c for c in cases if c['result'] == 'skipped']
    failed = [c for c in cases if c['result'] == 'failed']
    if skipped:
        print('\nSkipped:')
        for case in skipped:
            print(f"  {title(case)}: {' '.join(case['reason'].split())}")
    if failed:
        print('\nFailed:')
        for case in failed:
            print(f"  {title(case)}" + (f"  ({case['log']})" if case['log'] else ''))
            for line in tail(case['reason']).splitlines():
                print('      ' + line)
    stages = {}
    for case in cases:
        stages.setdefault(case['stage'], {'passed': 0, 'failed': 0, 'skipped': 0})
        stages[case['stage']][case['result']] += 1
    print('\nBy stage:')
    for stage, counts in stages.items():
        print(f"  {stage:<12}" + ', '.join(f'{n} {r}' for r, n in counts.items()))
    passed = len(cases) - len(failed) - len(skipped)
    print(f'\n{passed} passed, {len(failed)} failed, {len(skipped)} skipped', flush=True)
    return 1 if failed or not passed else 0


def stop(_number, _frame):
    """Interrupted: take what was started along."""
    for group in list(running):
        try:
            os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    os._exit(130)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    commands = parser.add_subparsers(dest='command', required=True)
    for name in ('tests', 'fuzz', 'bench'):
        sub = commands.add_parser(name)
        sub.add_argument('build')
        sub.add_argument('--stage', required=True)
        sub.add_argument('--jobs', type=int, default=2)
        if name == 'tests':
            sub.add_argument('--only', default='')
            sub.add_argument('--not-suite', default='')
            sub.add_argument('--timeout-factor', type=float, default=2)
            sub.add_argument('--no-aslr', action='store_true')
        if name == 'fuzz':
            sub.add_argument('--seconds', type=int, required=True)
        if name == 'bench':
            sub.add_argument('--out', required=True)
    sub = commands.add_parser('note')
    sub.add_argument('--stage', required=True)
    sub.add_argument('--case', required=True)
    sub.add_argument('--result', choices=('passed', 'failed', 'skipped'), required=True)
    sub.add_argument('--reason', default='')
    sub.add_argument('--log', default='')
    commands.add_parser('summary')
    args = parser.parse_args()
    os.makedirs(LOGS, exist_ok=True)
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    if not shutil.which('meson'):
        sys.exit('meson is not installed')
    action = {'tests': stage_tests, 'fuzz': stage_fuzz, 'bench': stage_bench, 'note': note,
              'summary': summary}[args.command]
    sys.exit(action(args) or 0)


if __name__ == '__main__':
    main()
