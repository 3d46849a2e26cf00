#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A Python program as a profiler meets it: many extension modules, real work.

    python-workload.py [--seconds N] [--import-only]

Imports Debian's extension modules that are shared objects (more than 20, with
the libraries they pull in: OpenSSL, SQLite, liblzma, libffi, ...), then works
across them for some seconds, in the main thread and in a thread pool. Several
jobs go from C back into Python (SQLite functions, ctypes callbacks), so stacks
are deep and change their language on the way.

Once the modules are there the process writes its pid to the file that
SFRAME_WORKLOAD_PIDFILE names: from then on its registrations are worth a look.
"""
import argparse
import asyncio
import bz2
import collections
import concurrent.futures
import contextvars
import cProfile
import ctypes
import datetime
import decimal
import hashlib
import importlib
import json
import lzma
import mmap
import os
import queue
import random
import resource
import socket
import sqlite3
import ssl
import sys
import threading
import time
import uuid
import zlib
import zoneinfo

# Shared objects that the imports above do not bring in by themselves.
MORE_MODULES = ('_codecs_cn', '_codecs_hk', '_codecs_jp', '_codecs_kr', '_crypt', '_curses',
                '_curses_panel', '_dbm', '_multibytecodec', '_multiprocessing', '_posixshmem',
                'audioop', 'readline', 'termios')
for module in MORE_MODULES:
    try:
        importlib.import_module(module)
    except ImportError:
        pass    # counted below: some of them may be missing elsewhere

TEXT = ' '.join(f'{i} bottles of 水 on the wall' for i in range(600))
request = contextvars.ContextVar('request', default=0)


def job_sqlite(rng):
    """Queries whose collation, function and aggregate are Python."""
    class Spread:
        def __init__(self):
            self.low = self.high = None

        def step(self, value):
            self.low = value if self.low is None else min(self.low, value)
            self.high = value if self.high is None else max(self.high, value)

        def finalize(self):
            return self.high - self.low

    with sqlite3.connect(':memory:') as db:
        db.create_function('digest', 1, lambda s: hashlib.md5(s.encode()).hexdigest()[:4])
        db.create_aggregate('spread', 1, Spread)
        db.create_collation('tail', lambda a, b: (a[::-1] > b[::-1]) - (a[::-1] < b[::-1]))
        db.execute('create table part (id integer primary key, name text, weight real)')
        db.executemany('insert into part (name, weight) values (?, ?)',
                       ((f'part {rng.randrange(10**6)}', rng.random()) for _ in range(1500)))
        rows = db.execute('select digest(name) d, spread(weight), count(*) from part '
                          'group by substr(d, 1, 2) order by name collate tail').fetchall()
        joined = db.execute('select count(*) from part a join part b on a.weight < b.weight '
                            'where a.id % 40 = 0').fetchone()
    return len(rows) + joined[0]


def job_ctypes(rng):
    """libc's qsort with a Python comparison: C, libffi, Python and back."""
    libc = ctypes.CDLL(None)
    compare_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int),
                                    ctypes.POINTER(ctypes.c_int))
    numbers = (ctypes.c_int * 800)(*(rng.randrange(10**6) for _ in range(800)))
    libc.qsort(numbers, len(numbers), ctypes.sizeof(ctypes.c_int),
               compare_type(lambda a, b: (a[0] > b[0]) - (a[0] < b[0])))
    assert list(numbers) == sorted(numbers)
    return numbers[0]


def job_ssl(rng):
    """A TLS session between two ends in memory (anonymous, so no certificate)."""
    ends = []
    for purpose in (ssl.PROTOCOL_TLS_CLIENT, ssl.PROTOCOL_TLS_SERVER):
        context = ssl.SSLContext(purpose)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers('aNULL:@SECLEVEL=0')
        ends.append((context, ssl.MemoryBIO(), ssl.MemoryBIO()))
    (client_context, to_client, from_client), (server_context, to_server, from_server) = ends
    client = client_context.wrap_bio(to_client, from_client)
    server = server_context.wrap_bio(to_server, from_server, server_side=True)
    waiting = [client, server]
    while waiting:
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                pass
            to_server.write(from_client.read())
            to_client.write(from_server.read())
    total = 0
    for _ in range(30):
        client.write(rng.randbytes(16000))
        to_server.write(from_client.read())
        total += len(server.read(16000))
    return total


def job_compress(rng):
    """The same text through three libraries."""
    data = TEXT.encode() + rng.randbytes(2000)
    total = 0
    for pack, unpack in ((zlib.compress, zlib.decompress), (bz2.compress, bz2.decompress),
                         (lzma.compress, lzma.decompress)):
        packed = pack(data)
        assert unpack(packed) == data
        total += len(packed)
    return total


def job_json(rng):
    """Nested data out and in, with decimals by a hook."""
    def tree(depth):
        return ({'name': f'node {rng.random()}', 'price': rng.random(),
                 'children': [tree(depth - 1) for _ in range(3)]} if depth else TEXT[:80])

    text = json.dumps(tree(5), ensure_ascii=True)
    return len(json.loads(text, parse_float=decimal.Decimal)['children'])


def job_decimal(rng):
    """Square roots and logarithms to many digits."""
    with decimal.localcontext() as context:
        context.prec = 400
        root = decimal.Decimal(rng.randrange(2, 10**6)).sqrt()
        return len(str(root.ln() * root))


def job_hash(rng):
    """OpenSSL's digests; large inputs are hashed without the interpreter's lock."""
    data = rng.randbytes(400_000)
    digests = [hashlib.new(name, data).hexdigest() for name in ('md5', 'sha3_256', 'blake2b')]
    digests += [hashlib.new(name, data[:4000]).hexdigest() for name in ('sha256', 'sha512')]
    return len(hashlib.scrypt(data[:64], salt=digests[0].encode(), n=2**10, r=8, p=1))


def job_text(rng):
    """Multi-byte codecs, dates in time zones, sorting with a key in Python."""
    total = 0
    for codec in ('gb18030', 'big5', 'shift_jis', 'euc_kr'):
        total += len(TEXT.encode(codec, 'replace').decode(codec))
    try:
        zone = zoneinfo.ZoneInfo('Europe/Berlin')
    except zoneinfo.ZoneInfoNotFoundError:
        zone = datetime.timezone.utc    # a machine without tzdata
    days = [datetime.datetime.fromtimestamp(rng.randrange(2**31), zone) for _ in range(600)]
    days.sort(key=lambda day: (day.month, day.isoformat()))
    return total + len({uuid.uuid5(uuid.NAMESPACE_URL, day.isoformat()) for day in days})


def job_asyncio(rng):
    """A pipeline of coroutines over a queue, each task with a context of its own."""
    async def stage(source, sink):
        while (item := await source.get()) is not None:
            request.set(item)
            await asyncio.sleep(0)
            await sink.put(request.get() + 1)
        await sink.put(None)

    async def pipeline():
        queues = [asyncio.Queue(8) for _ in range(5)]
        stages = [asyncio.create_task(stage(a, b)) for a, b in zip(queues, queues[1:])]

        async def feed():
            for item in [rng.randrange(1000) for _ in range(300)] + [None]:
                await queues[0].put(item)

        feeder, total = asyncio.create_task(feed()), 0
        while (item := await queues[-1].get()) is not None:
            total += item
        await asyncio.gather(feeder, *stages)
        return total

    return asyncio.run(pipeline())


def job_mmap(rng):
    """An anonymous mapping searched and changed; resource usage read."""
    with mmap.mmap(-1, 1 << 20) as area:
        area.write(rng.randbytes(1 << 18))
        for _ in range(40):
            area.find(rng.randbytes(3))
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def job_profile(rng):
    """Deep recursion under cProfile, whose hooks are C called for every Python call."""
    def climb(depth):
        return 1 if depth == 0 else climb(depth - 1) + max(map(abs, (depth, -depth)))

    profile = cProfile.Profile()
    return profile.runcall(lambda: sum(climb(rng.randrange(60, 120)) for _ in range(60)))


JOBS = (job_sqlite, job_ctypes, job_ssl, job_compress, job_json, job_decimal, job_hash, job_text,
        job_asyncio, job_mmap, job_profile)


def jobs_here():
    """All; a kernel without sockets has no event loop."""
    try:
        for end in socket.socketpair():
            end.close()
    except OSError:
        return tuple(job for job in JOBS if job is not job_asyncio)
    return JOBS


def extension_modules():
    """Names of the modules loaded from shared objects."""
    return sorted(name for name, loaded in list(sys.modules.items())
                  if str(getattr(loaded, '__file__', '') or '').endswith('.so'))


def worker(tasks, results):
    """A thread of the program's own, fed through the C queue."""
    while (task := tasks.get()) is not None:
        job, seed = task
        job(random.Random(seed))
        results.put(job.__name__)


def main():
    parser = argparse.ArgumentParser(description='work across many extension modules')
    parser.add_argument('--seconds', type=float, default=6)
    parser.add_argument('--import-only', action='store_true', help='import, then exit')
    args = parser.parse_args()

    modules = extension_modules()
    if args.import_only:
        print(len(modules))
        return
    print(f'{len(modules)} extension modules: {" ".join(modules)}', flush=True)
    pidfile = os.environ.get('SFRAME_WORKLOAD_PIDFILE')
    if pidfile:
        with open(pidfile + '.new', 'w') as file:
            file.write(f'{os.getpid()}\n')
        os.rename(pidfile + '.new', pidfile)

    tasks, results = queue.SimpleQueue(), queue.SimpleQueue()
    threads = [threading.Thread(target=worker, args=(tasks, results), daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    jobs = jobs_here()
    done, end, seed = collections.Counter(), time.monotonic() + args.seconds, 0
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        while time.monotonic() < end:
            pending = []
            for job in jobs:
                seed += 1
                pending.append((job.__name__, pool.submit(job, random.Random(seed))))
            tasks.put((job_hash, seed))
            tasks.put((job_compress, seed))
            job_json(random.Random(seed))
            done['job_json'] += 1
            for name, future in pending:
                future.result()
                done[name] += 1
    for _ in threads:
        tasks.put(None)
    for thread in threads:
        thread.join()
    while not results.empty():
        done[results.get()] += 1
    print('rounds: ' + ', '.join(f'{name[4:]} {count}' for name, count in sorted(done.items())))
    if len(modules) < 20:
        sys.exit(f'only {len(modules)} extension modules are shared objects here')


main()
