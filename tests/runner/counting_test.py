#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The score can be trusted: what a test program does is what is counted.

Prints TAP. Programs are small shell scripts that behave as test programs do,
well or badly; results are compared as (case, result).
"""
import os
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import runner  # noqa: E402  (beside this file)

points = 0
failed = 0


def point(name, got, expected):
    global points, failed
    points += 1
    if got == expected:
        print(f'ok {points} - {name}')
    else:
        failed += 1
        print(f'  got      {got}\n  expected {expected}\nnot ok {points} - {name}')


def outcome(protocol, script, timeout=20):
    """Run a script as the runner would; its cases without the reasons."""
    with tempfile.TemporaryDirectory() as directory:
        xml, log = directory + '/report.xml', directory + '/log'
        env = dict(os.environ, XML=xml)
        status, _ = runner.run(['bash', '-c', script], log, timeout, env, directory)
        cases = runner.cases_of({'protocol': protocol, 'timeout': timeout}, status,
                                runner.read_log(log), xml)
        return [case[:2] for case in cases]


point('a plain program that returns 0 passes', outcome('exitcode', 'exit 0'), [('', 'passed')])
point('a plain program that returns 1 fails', outcome('exitcode', 'exit 1'), [('', 'failed')])
point('77 skips', outcome('exitcode', 'echo no kernel; exit 77'), [('', 'skipped')])
point('a signal fails', outcome('exitcode', 'kill -SEGV $$'), [('', 'failed')])
point('a program that does not end fails', outcome('exitcode', 'sleep 60', timeout=0.3),
      [('', 'failed')])

point('TAP points count one by one',
      outcome('tap', 'echo "ok 1 - a"; echo "not ok 2 - b"; echo "ok 3 - c # SKIP why"; echo 1..3'),
      [('a', 'passed'), ('b', 'failed'), ('c', 'skipped')])
point('a TAP stream that ends early fails', outcome('tap', 'echo 1..2; echo "ok 1 - a"'),
      [('a', 'passed'), ('plan', 'failed')])
point('a TAP stream without plan fails', outcome('tap', 'echo "ok 1 - a"'),
      [('a', 'passed'), ('plan', 'failed')])
point('a TAP program that fails after good points fails',
      outcome('tap', 'echo "ok 1 - a"; echo 1..1; exit 3'), [('a', 'passed'), ('', 'failed')])
point('a TAP stream may be skipped as a whole', outcome('tap', 'echo "1..0 # skip no git"'),
      [('all', 'skipped')])

REPORT = '''cat >$XML <<END
<testsuites><testsuite name="S">
<testcase name="Good" status="run" result="completed" classname="S"/>
<testcase name="Bad" status="run" result="completed" classname="S"><failure message="x"/></testcase>
<testcase name="Cannot" status="run" result="skipped" classname="S"><skipped message="f.cc:1&#x0A;no perf"/></testcase>
<testcase name="DISABLED_X" status="notrun" result="suppressed" classname="S"/>
</testsuite></testsuites>
END
'''
point('GoogleTest cases come from the report', outcome('gtest', REPORT + 'exit 1'),
      [('S.Good', 'passed'), ('S.Bad', 'failed'), ('S.Cannot', 'skipped')])
point('a GoogleTest program that dies names the case it died in',
      outcome('gtest', 'echo "[ RUN      ] S.A"; echo "[       OK ] S.A (0 ms)"; '
                       'echo "[ RUN      ] S.B"; kill -ABRT $$'),
      [('S.A', 'passed'), ('S.B', 'failed')])
point('a GoogleTest program that dies after its last case fails',
      outcome('gtest', 'echo "[ RUN      ] S.A"; echo "[       OK ] S.A (0 ms)"; exit 9'),
      [('S.A', 'passed'), ('', 'failed')])
point('a GoogleTest program without cases fails',
      outcome('gtest', 'echo "<testsuites/>" >$XML'), [('', 'failed')])


def outlives():
    """Whether a child that a program left behind lives on."""
    with tempfile.TemporaryDirectory() as directory:
        runner.run(['bash', '-c', f'sleep 300 & echo $! >{directory}/pid'], directory + '/log', 20,
                   dict(os.environ), directory)
        with open(directory + '/pid') as file:
            pid = file.read().strip()
        for _ in range(100):    # a kill takes a moment to be seen
            try:
                with open(f'/proc/{pid}/stat') as stat:
                    if stat.read().rsplit(')', 1)[1].split()[0] in 'ZX':
                        return False
            except FileNotFoundError:
                return False
            time.sleep(0.05)
        return True


point('no process of a test outlives it', outlives(), False)
print(f'1..{points}')
sys.exit(1 if failed else 0)
