#!/usr/bin/env python3
"""Runs Titan and RocksDB alternately on the same work and compares them.

The work: a database of 16-byte keys and values of one size goes through

  fillrandom   1 thread    N puts of random keys into an empty database
  overwrite    1 thread    N more
  readrandom   2 threads   random gets
  seekrandom   2 threads   random seeks, 100 nexts each
  readseq      1 thread    one scan over everything

Both engines: write-ahead log on and not synced, no compression, write buffer
64 MB, block cache 256 MB, Bloom filter of 10 bits, 2 background jobs, dynamic
level sizes.  Each step is a process of its own on the database the step before
left, started with cold caches in a fresh memory cgroup, so that page cache and
heap together stay within the limit.  Background work that a step leaves undone
is done in the next one, as it would be after a restart.

Rounds alternate (A B A B); with `--interleave step` each step does (A1 B1 A2
B2 ...), which needs room for both databases.  Reported are medians over the
rounds, the range, and the ratio to the first engine (of each round: range).

Engines: `rocksdb` (db_bench), `blobdb` (db_bench with blob files and their
garbage collection), `titan` (`titan bench`).

Needs Linux, Python 3.9 or newer, and root for the cgroup and for dropping
caches (`--no-cgroup` does without; the page cache is then unbounded and the
numbers say little).  Debian: `apt-get install rocksdb-tools fio`.

Debian's db_bench is compiled with assertions and says so; the report repeats
every such warning.  For numbers to publish pass a release build with --db-bench.

Examples:

  # the full protocol; hours
  ./compare_rocksdb.py --dir /mnt/fast/bench --rounds 3 \\
      --json result.json --markdown result.md
  # does everything work?  minutes
  ./compare_rocksdb.py --dir /tmp/bench --quick
  # RocksDB only, one value size, two steps
  ./compare_rocksdb.py --engines rocksdb --quick --sizes 4096:2000000 \\
      --steps fillrandom,readrandom
"""

import argparse
import contextlib
import datetime
import json
import math
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

KEY_SIZE = 16
WRITE_BUFFER = 64 << 20
BLOCK_CACHE = 256 << 20
BLOOM_BITS = 10
BACKGROUND_JOBS = 2
SEEK_NEXTS = 100
# step -> threads
STEPS = {"fillrandom": 1, "overwrite": 1, "readrandom": 2, "seekrandom": 2, "readseq": 1}
WRITE_STEPS = ("fillrandom", "overwrite")
QUICK_SCALE = 1 / 20
MB = 1e6


class StepFailed(Exception):
    """An engine's process failed, or printed something that is no result."""


def say(text):
    print(text, file=sys.stderr, flush=True)


# ------------------------------------------------------------- the machine


class Cgroup:
    """A memory cgroup for one step, of version 1 or 2; limits heap and page cache."""

    def __init__(self, limit):
        self.limit = limit
        self.v2 = False
        self.root = None
        controllers = "/sys/fs/cgroup/cgroup.controllers"
        if os.path.exists(controllers):
            if "memory" in read_text(controllers).split():
                self.v2, self.root = True, "/sys/fs/cgroup"
                with contextlib.suppress(OSError):
                    write_text("/sys/fs/cgroup/cgroup.subtree_control", "+memory")
        elif os.path.isdir("/sys/fs/cgroup/memory"):
            self.root = "/sys/fs/cgroup/memory"
        if self.root is None:
            raise OSError("no memory cgroup controller is mounted at /sys/fs/cgroup")
        self.path = os.path.join(self.root, "titan-compare-%d" % os.getpid())

    def describe(self):
        return "v%d" % (2 if self.v2 else 1)

    def create(self):
        self.remove()
        os.mkdir(self.path)
        write_text(self._file("memory.max", "memory.limit_in_bytes"), str(self.limit))
        if self.v2:
            with contextlib.suppress(OSError):
                write_text(os.path.join(self.path, "memory.swap.max"), "0")

    def enter(self):
        """Runs in the child, before exec."""
        write_text(os.path.join(self.path, "cgroup.procs"), "0")

    def peak(self):
        try:
            return int(read_text(self._file("memory.peak", "memory.max_usage_in_bytes")))
        except (OSError, ValueError):
            return None  # memory.peak came with Linux 5.19

    def oom_kills(self):
        try:
            text = read_text(self._file("memory.events", "memory.oom_control"))
        except OSError:
            return 0
        found = re.search(r"^oom_kill (\d+)", text, re.M)
        return int(found.group(1)) if found else 0

    def remove(self):
        for _ in range(50):  # a dying process leaves a moment after it is reaped
            try:
                os.rmdir(self.path)
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.1)

    def _file(self, v2, v1):
        return os.path.join(self.path, v2 if self.v2 else v1)


class NoCgroup:
    """Stands in for `Cgroup` where none is wanted."""

    limit = None

    def describe(self):
        return "none"

    def create(self):
        pass

    def enter(self):
        pass

    def peak(self):
        return None

    def oom_kills(self):
        return 0

    def remove(self):
        pass


class Device:
    """The block device below a directory, for its read and write counters."""

    def __init__(self, directory):
        dev = os.stat(directory).st_dev
        self.path = "/sys/dev/block/%d:%d/stat" % (os.major(dev), os.minor(dev))
        self.name = None
        if os.path.exists(self.path):
            self.name = os.path.basename(os.path.dirname(os.path.realpath(self.path)))

    def counters(self):
        """(bytes read, bytes written) since boot, or None (tmpfs, overlay, network)."""
        if self.name is None:
            return None
        fields = read_text(self.path).split()
        return int(fields[2]) * 512, int(fields[6]) * 512  # in sectors of 512 bytes, always


def read_text(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def write_text(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def disk_usage(directory):
    """Bytes allocated to the files of a directory, as `du` counts."""
    total = 0
    for parent, _, names in os.walk(directory):
        for name in names:
            # Files come and go while an engine runs.
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512
    return total


def drop_caches(directory):
    """Empties the page cache; without the right to, at least of the database."""
    os.sync()
    try:
        write_text("/proc/sys/vm/drop_caches", "3")
        return
    except OSError:
        pass
    for parent, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                fd = os.open(os.path.join(parent, name), os.O_RDONLY)
                try:
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(fd)


def machine(device, directory):
    cpu = re.search(r"^model name\s*:\s*(.*)$", read_text("/proc/cpuinfo"), re.M)
    memory = re.search(r"^MemTotal:\s*(\d+) kB", read_text("/proc/meminfo"), re.M)
    return {
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "kernel": platform.release(),
        "cpu": cpu.group(1) if cpu else platform.machine(),
        "cpus": os.cpu_count(),
        "memory_bytes": int(memory.group(1)) * 1024 if memory else None,
        "device": device.name,
        "file_system": file_system_of(directory),
    }


def file_system_of(directory):
    """The type of the file system that holds `directory`, by its longest mount point."""
    best = ("", "unknown")
    real = os.path.realpath(directory)
    for line in read_text("/proc/self/mounts").splitlines():
        _, point, kind = line.split()[:3]
        if (real + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]


FIO_JOBS = {
    "seq_write_mb_s": ("write", "1M", 8),
    "rand_read_8k_qd1_iops": ("randread", "8k", 1),
    "rand_read_8k_qd32_iops": ("randread", "8k", 32),
}


def ceilings(directory, seconds, size):
    """What the device can do, by fio with direct I/O; None where fio is missing."""
    if shutil.which("fio") is None:
        return None
    path = os.path.join(directory, "fio.data")
    found = {}
    try:
        for name, (mode, block, depth) in FIO_JOBS.items():
            argv = ["fio", "--name=" + name, "--filename=" + path, "--rw=" + mode, "--bs=" + block,
                    "--iodepth=%d" % depth, "--ioengine=libaio", "--direct=1", "--size=%d" % size,
                    "--randrepeat=0", "--group_reporting", "--output-format=json"]
            if mode == "write":
                argv += ["--end_fsync=1"]  # writes the whole file once, for the reads after it
            else:
                argv += ["--time_based", "--runtime=%d" % seconds]
            done = subprocess.run(argv, capture_output=True, text=True)
            try:
                job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
            except (ValueError, KeyError, IndexError):
                say("fio failed: " + (done.stderr or done.stdout).strip()[:200])
                return None
            if mode == "write":
                # Time includes the final fsync: what reached the device, not its cache.
                found[name] = job["write"]["io_bytes"] / MB / max(job["write"]["runtime"] / 1e3, 1e-3)
            else:
                found[name] = job["read"]["iops"]
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    return found


# ----------------------------------------------------------------- engines


class Work:
    """One step on one size of values."""

    def __init__(self, step, value_size, num, reads, seed):
        self.step = step
        self.value_size = value_size
        self.num = num
        self.reads = reads  # per thread, or None for the step's own default
        self.seed = seed
        self.threads = STEPS[step]


class RocksDb:
    """RocksDB's db_bench; with `blobs`, its integrated BlobDB."""

    def __init__(self, name, program, extra, blobs):
        self.name, self.program, self.extra, self.blobs = name, program, extra, blobs

    def command(self, directory, work):
        argv = [
            self.program, "--db=" + directory, "--benchmarks=" + work.step, "--num=%d" % work.num,
            "--key_size=%d" % KEY_SIZE, "--value_size=%d" % work.value_size,
            "--threads=%d" % work.threads, "--seed=%d" % work.seed, "--histogram=1",
            "--compression_type=none", "--disable_wal=0", "--sync=0",
            "--write_buffer_size=%d" % WRITE_BUFFER, "--cache_size=%d" % BLOCK_CACHE,
            "--bloom_bits=%d" % BLOOM_BITS, "--max_background_jobs=%d" % BACKGROUND_JOBS,
            "--level_compaction_dynamic_level_bytes=1",
        ]
        if work.step != "fillrandom":
            argv.append("--use_existing_db=1")
        if work.reads is not None:
            argv.append("--reads=%d" % work.reads)
        if work.step == "seekrandom":
            argv.append("--seek_nexts=%d" % SEEK_NEXTS)
        if self.blobs:
            argv += ["--enable_blob_files=1", "--min_blob_size=1024",
                     "--blob_compression_type=none", "--enable_blob_garbage_collection=1"]
        return argv + self.extra

    @staticmethod
    def parse(step, output):
        """Reads a result line, of any db_bench since 5.x, and the histogram after it:

            overwrite    :  11.508 micros/op 86862 ops/sec 0.230 seconds 20000 operations;   34.5 MB/s
            readrandom   :   4.131 micros/op 384867 ops/sec;   97.4 MB/s (3203 of 5000 found)
            Percentiles: P50: 9.32 P75: 12.54 P99: 21.98 P99.9: 92.26 P99.99: 170.00
        """
        text = re.sub(r"^.*\r(?!\n)", "", output, flags=re.M)  # progress overwritten in place
        number = r"([\d.]+(?:[eE][+-]?\d+)?)"
        line = re.search(r"^%s\s*:\s*%s micros/op\s+%s ops/sec(.*)$" % (step, number, number),
                         text, re.M)
        if not line:
            raise StepFailed("no result line for " + step)
        rest = line.group(3)
        result = {"ops_per_sec": float(line.group(2)), "micros_per_op": float(line.group(1))}
        for name, pattern in (("ops", r"%s operations"), ("mb_per_sec", r"%s MB/s"),
                              ("found", r"\(%s of")):
            found = re.search(pattern % number, rest)
            if found:
                result[name] = float(found.group(1))
        percentiles = re.search(r"^Percentiles:(.*)$", text[line.end():], re.M)
        if percentiles:
            for name, label in (("p50_us", "P50"), ("p99_us", "P99"), ("p999_us", r"P99\.9")):
                found = re.search(r"\b%s: %s" % (label, number), percentiles.group(1))
                if found:
                    result[name] = float(found.group(1))
        return result

    @staticmethod
    def warnings(output):
        """db_bench says when it was built in a way that makes it slow."""
        return sorted(set(re.findall(r"^WARNING: (.*)$", output, re.M)))

    def version(self):
        done = subprocess.run([self.program, "--version"], capture_output=True, text=True)
        return (done.stdout or done.stderr).strip()


class Titan:
    """`titan bench`, whose `--json` output is the interface."""

    FIELDS = ("ops", "ops_per_sec", "mb_per_sec", "p50_us", "p99_us", "p999_us")
    OWN = ("write_amp", "space_amp", "space_amp_max")

    def __init__(self, name, program, extra):
        self.name, self.program, self.extra = name, program, extra

    def command(self, directory, work):
        argv = [self.program, "bench", directory, "--benchmarks", work.step, "--num", str(work.num),
                "--value-size", str(work.value_size), "--threads", str(work.threads), "--json"]
        if work.step != "fillrandom":
            argv.append("--existing")
        if work.reads is not None:
            argv += ["--reads", str(work.reads)]
        if work.step == "seekrandom":
            argv += ["--seek-nexts", str(SEEK_NEXTS)]
        return argv + self.extra

    @classmethod
    def parse(cls, step, output):
        start = output.find("{")
        try:
            steps = json.loads(output[start:])["steps"] if start >= 0 else []
        except (ValueError, KeyError, TypeError) as e:
            raise StepFailed("not the JSON of titan bench: %s" % e) from e
        for entry in steps:
            if entry.get("name") == step and entry.get("ops_per_sec") is not None:
                result = {k: entry[k] for k in cls.FIELDS if entry.get(k) is not None}
                result["own"] = {k: entry[k] for k in cls.OWN if entry.get(k) is not None}
                return result
        raise StepFailed("no result for " + step)

    @staticmethod
    def warnings(_output):
        return []

    def version(self):
        done = subprocess.run([self.program, "--version"], capture_output=True, text=True)
        return (done.stdout or done.stderr).strip()


# --------------------------------------------------------------- one step


class SpaceSampler(threading.Thread):
    """Watches the largest disk usage of a directory, once a second."""

    def __init__(self, directory):
        super().__init__(daemon=True)
        self.directory, self.peak, self._stop_now = directory, 0, threading.Event()

    def run(self):
        while True:
            self.peak = max(self.peak, disk_usage(self.directory))
            if self._stop_now.wait(1.0):
                return

    def finish(self):
        self._stop_now.set()
        self.join()
        self.peak = max(self.peak, disk_usage(self.directory))
        return self.peak


def wait_for(process, timeout):
    """Waits for a child and returns its (status, resource usage); kills it when late."""
    deadline = time.monotonic() + timeout
    late = False
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            if late:
                raise StepFailed("killed after %d s" % timeout)
            return process.returncode, usage
        if not late and time.monotonic() > deadline:
            late = True
            os.killpg(process.pid, signal.SIGKILL)
        time.sleep(0.05)


def run_step(engine, directory, work, cgroup, device, timeout):
    """Runs one step and returns everything measured about it."""
    drop_caches(directory)
    cgroup.create()
    sampler = SpaceSampler(directory)
    process = None
    try:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            before = device.counters()
            started = time.monotonic()
            process = subprocess.Popen(engine.command(directory, work), stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=err, start_new_session=True,
                                       preexec_fn=cgroup.enter)
            sampler.start()
            status, usage = wait_for(process, timeout)
            wall = time.monotonic() - started
            os.sync()  # what is still in the page cache belongs to this step
            after = device.counters()
            texts = []
            for stream in (out, err):
                stream.seek(0)
                texts.append(stream.read().decode("utf-8", "replace"))
        peak = sampler.finish()
        if cgroup.oom_kills():
            raise StepFailed("killed: out of the %d MiB of its cgroup" % (cgroup.limit >> 20))
        if status != 0:
            last = (texts[1].replace("\r", "\n").strip() or texts[0].strip()).splitlines()[-3:]
            raise StepFailed("exit status %d: %s" % (status, " | ".join(last)))
        result = engine.parse(work.step, texts[0])
        result["warnings"] = engine.warnings(texts[0] + "\n" + texts[1])
        result.update(
            wall_s=wall,
            cpu_user_s=usage.ru_utime,
            cpu_sys_s=usage.ru_stime,
            max_rss_bytes=usage.ru_maxrss * 1024,
            process_read_bytes=usage.ru_inblock * 512,
            process_written_bytes=usage.ru_oublock * 512,
            db_bytes=disk_usage(directory),
            db_bytes_peak=peak,
            cgroup_peak_bytes=cgroup.peak(),
        )
        if before and after:
            result["device_read_bytes"] = after[0] - before[0]
            result["device_written_bytes"] = after[1] - before[1]
        return result
    finally:
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        cgroup.remove()


def amplification(result, work, writes_before):
    """Adds write and space amplification, computed alike for every engine.

    Keys are drawn at random, so after `w` writes over `n` keys about
    n * (1 - e^(-w/n)) keys exist; that many are the live data.
    """
    record = KEY_SIZE + work.value_size
    writes = writes_before + (work.num if work.step in WRITE_STEPS else 0)
    live = work.num * (1 - math.exp(-writes / work.num)) * record
    if live > 0:
        result["live_bytes_estimate"] = int(live)
        result["space_amp"] = result["db_bytes"] / live
        result["space_amp_peak"] = result["db_bytes_peak"] / live
    if work.step in WRITE_STEPS and "device_written_bytes" in result:
        result["write_amp"] = result["device_written_bytes"] / (work.num * record)
    return writes


# ------------------------------------------------------------- the rounds


def schedule(rounds, engines, steps, interleave):
    """Yields (round, engine, step); A B A B by whole passes or by steps."""
    for number in range(1, rounds + 1):
        if interleave == "pass":
            yield from ((number, e, s) for e in engines for s in steps)
        else:
            yield from ((number, e, s) for s in steps for e in engines)


def compare(options, engines, cgroup, device, runs, measured_ceilings):
    """Runs everything; appends to `runs` one result per round, engine, size and step."""
    total = options.rounds * len(engines) * len(options.steps) * len(options.sizes)
    done = 0
    for value_size, full_num in options.sizes:
        num = max(1000, int(full_num * options.scale))
        state = {}  # (round, engine) -> writes so far, or None after a failure
        directories = set()
        last_round = 0
        for number, engine, step in schedule(options.rounds, engines, options.steps,
                                             options.interleave):
            directory = os.path.join(options.dir, engine.name)
            if number != last_round:
                last_round = number
                if not options.no_fio:
                    found = ceilings(options.dir, options.fio_seconds, options.fio_size)
                    if found:
                        say("  device: " + ", ".join("%s %.0f" % kv for kv in found.items()))
                        measured_ceilings.append(dict(found, round=number, value_size=value_size))
            if step == options.steps[0]:
                shutil.rmtree(directory, ignore_errors=True)
                os.makedirs(directory)
                directories.add(directory)
                state[number, engine.name] = 0
            done += 1
            label = "[%d/%d] round %d %-8s %6d B %-10s" % (
                done, total, number, engine.name, value_size, step)
            if state[number, engine.name] is None:
                say(label + " skipped: a step before it failed")
                continue
            reads = {"readrandom": options.reads, "seekrandom": options.seeks}.get(step)
            if reads is not None:
                reads = max(100, int(reads * options.scale))
            # Another seed in every step: overwrite must not repeat fillrandom's keys.
            seed = 1000 * number + 10 * (value_size % 97) + list(STEPS).index(step) + 1
            work = Work(step, value_size, num, reads, seed)
            run = {"round": number, "engine": engine.name, "value_size": value_size, "num": num,
                   "step": step, "threads": work.threads, "reads": reads}
            try:
                result = run_step(engine, directory, work, cgroup, device, options.step_timeout)
                state[number, engine.name] = amplification(result, work, state[number, engine.name])
                run.update(result)
                say("%s %10.0f ops/s  %6.1f s, cpu %.1f s, %d MB on disk" % (
                    label, run["ops_per_sec"], run["wall_s"],
                    run["cpu_user_s"] + run["cpu_sys_s"], run["db_bytes"] / MB))
            except StepFailed as e:
                state[number, engine.name] = None
                run["error"] = str(e)
                say("%s FAILED: %s" % (label, e))
            runs.append(run)
            if step == options.steps[-1] and not options.keep:
                shutil.rmtree(directory, ignore_errors=True)
        if not options.keep:
            for directory in directories:
                shutil.rmtree(directory, ignore_errors=True)


# ------------------------------------------------------------- the report


def spread(values, form="{:,.0f}"):
    """`median (min–max)`, or just the value where there is one."""
    values = [v for v in values if v is not None]
    if not values:
        return "–"
    middle = form.format(statistics.median(values))
    if len(values) == 1:
        return middle
    return "%s (%s–%s)" % (middle, form.format(min(values)), form.format(max(values)))


def middle(runs, field, form="{:,.0f}", unit=1.0):
    values = [r[field] / unit for r in runs if r.get(field) is not None]
    return form.format(statistics.median(values)) if values else "–"


def table(header, rows):
    right = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in [header, right] + rows)


def ratios(baseline, other):
    """other / baseline in ops/s, round by round."""
    base = {r["round"]: r["ops_per_sec"] for r in baseline if "ops_per_sec" in r}
    return [r["ops_per_sec"] / base[r["round"]] for r in other
            if "ops_per_sec" in r and base.get(r["round"])]


def whole_pass(runs):
    """Bytes the device wrote over a pass per byte put, round by round.

    Fairer than a single step's figure: compaction that one step leaves is
    written in the next, reading steps included.
    """
    amplifications = []
    for number in sorted({r["round"] for r in runs}):
        steps = [r for r in runs if r["round"] == number]
        put = sum(r["num"] * (KEY_SIZE + r["value_size"]) for r in steps if r["step"] in WRITE_STEPS)
        if put and all("device_written_bytes" in r for r in steps):
            amplifications.append(sum(r["device_written_bytes"] for r in steps) / put)
    return amplifications


def markdown(report):
    """The report as Markdown: throughput first, then what it cost."""
    config, host = report["config"], report["machine"]
    names = config["engines"]
    runs = report["runs"]
    out = ["# " + " and ".join(names) + ", side by side", ""]
    out.append("%s; %d CPUs (%s), %.1f GB memory, %s on %s, Linux %s." % (
        host["time"], host["cpus"], host["cpu"], (host["memory_bytes"] or 0) / 1e9,
        host["file_system"], host["device"] or "no block device", host["kernel"]))
    limit = config["memory_limit"]
    out.append("Memory limit %s (cgroup %s), %d round(s), interleaved by %s, scale %g." % (
        "%.0f MiB" % (limit / (1 << 20)) if limit else "none", config["cgroup"], config["rounds"],
        config["interleave"], config["scale"]))
    out += ["", *("- %s: %s" % kv for kv in report["versions"].items())]
    for name in names:
        warnings = sorted({w for r in runs if r["engine"] == name for w in r.get("warnings", [])})
        out += ["- **%s warns: %s**" % (name, w) for w in warnings]
    if report["ceilings"]:
        cells = [[label, spread([c[field] for c in report["ceilings"]])] for field, label in (
            ("seq_write_mb_s", "sequential write, MB/s"),
            ("rand_read_8k_qd1_iops", "8 KiB random reads, depth 1, per second"),
            ("rand_read_8k_qd32_iops", "8 KiB random reads, depth 32, per second"))]
        out += ["", "## What the device can do", "",
                table(["fio, direct I/O", "median (range)"], cells)]
    for value_size, num in dict.fromkeys((r["value_size"], r["num"]) for r in runs):
        chosen = [r for r in runs if r["value_size"] == value_size]
        at = {(s, n): [r for r in chosen if r["step"] == s and r["engine"] == n]
              for s in config["steps"] for n in names}
        out += ["", "## {:,} values of {:,} bytes".format(num, value_size), ""]
        rows = []
        for step in config["steps"]:
            row = ["%s, %d thread%s" % (step, STEPS[step], "s" if STEPS[step] > 1 else "")]
            row += [spread([r.get("ops_per_sec") for r in at[step, n]]) for n in names]
            row += [spread(ratios(at[step, names[0]], at[step, n]), "{:.2f}") for n in names[1:]]
            rows.append(row)
        out.append(table(["operations per second"] + names +
                         ["%s / %s" % (n, names[0]) for n in names[1:]], rows))
        rows = []
        for step in config["steps"]:
            for n in names:
                r = at[step, n]
                cpu = [x["cpu_user_s"] + x["cpu_sys_s"] for x in r if "cpu_user_s" in x]
                rows.append([
                    "%s, %s" % (step, n), middle(r, "mb_per_sec"), middle(r, "p50_us", "{:,.1f}"),
                    middle(r, "p99_us", "{:,.1f}"), middle(r, "p999_us", "{:,.0f}"),
                    "{:,.1f}".format(statistics.median(cpu)) if cpu else "–",
                    middle(r, "wall_s", "{:,.1f}"),
                    middle(r, "device_read_bytes", unit=MB),
                    middle(r, "device_written_bytes", unit=MB), middle(r, "db_bytes", unit=MB),
                    middle(r, "write_amp", "{:.2f}"), middle(r, "space_amp", "{:.2f}"),
                    middle(r, "space_amp_peak", "{:.2f}")])
        out += ["", "Medians of the rounds:", "", table(
            ["step, engine", "MB/s", "p50 µs", "p99 µs", "p99.9 µs", "CPU s", "wall s", "read MB",
             "written MB", "on disk MB", "write amp", "space amp", "peak"], rows)]
        out += ["", "Write amplification of all steps together: " + ", ".join(
            "%s %s" % (n, spread(whole_pass([r for r in chosen if r["engine"] == n]), "{:.2f}"))
            for n in names) + "."]
    errors = [r for r in runs if "error" in r]
    if errors:
        out += ["", "## Failed steps", ""]
        out += ["- round %d, %s, %d bytes, %s: %s" % (
            r["round"], r["engine"], r["value_size"], r["step"], r["error"]) for r in errors]
    out += ["", "Wall time has the opening and closing of the database in it, operations per "
            "second do not. Bytes read and written are the whole device's, after a final sync; write "
            "amplification is bytes written per byte put; space amplification is what `du` "
            "counts over the live data, estimated from the number of random writes. A seek "
            "counts as one operation with its %d nexts." % SEEK_NEXTS, ""]
    return "\n".join(out)


# ---------------------------------------------------------------- options


def byte_size(text):
    """`1536M`, `2G` or plain bytes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMG]?)i?B?", text, re.I)
    if not found:
        raise argparse.ArgumentTypeError("not a size: " + text)
    shift = {"": 0, "K": 10, "M": 20, "G": 30}[found.group(2).upper()]
    return int(float(found.group(1)) * (1 << shift))


def size_list(text):
    try:
        pairs = [tuple(map(int, item.split(":"))) for item in text.split(",")]
        if any(len(p) != 2 or min(p) <= 0 for p in pairs):
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError("expected VALUE_SIZE:COUNT[,...]: " + text) from None
    return pairs


def name_list(known):
    def parse(text):
        names = text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError("%s is none of %s" % (name, ", ".join(known)))
        return list(dict.fromkeys(names))
    return parse


def arguments():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--dir", default="/tmp/titan-compare",
                   help="where the databases go, one directory each (default: %(default)s)")
    p.add_argument("--engines", type=name_list(("rocksdb", "blobdb", "titan")),
                   default=["rocksdb", "titan"], metavar="A,B",
                   help="the first is the baseline (default: rocksdb,titan)")
    p.add_argument("--titan", default="target/release/titan", metavar="PATH")
    p.add_argument("--db-bench", default="db_bench", metavar="PATH")
    p.add_argument("--titan-arg", action="append", default=[], metavar="ARG",
                   help="a further argument for titan bench, may be repeated (--titan-arg=--x=1)")
    p.add_argument("--db-bench-arg", action="append", default=[], metavar="ARG",
                   help="the same for db_bench")
    p.add_argument("--rounds", type=int, help="default: 3, with --quick 1")
    p.add_argument("--interleave", choices=("pass", "step"), default="pass",
                   help="what alternates between the engines (default: %(default)s)")
    p.add_argument("--sizes", type=size_list, default=[(4096, 2_000_000), (32768, 250_000)],
                   metavar="BYTES:COUNT,...", help="default: 4096:2000000,32768:250000")
    p.add_argument("--steps", type=name_list(tuple(STEPS)), default=list(STEPS), metavar="A,B",
                   help="must begin with fillrandom (default: all five)")
    p.add_argument("--reads", type=int, default=100_000,
                   help="gets per thread in readrandom (default: %(default)s)")
    p.add_argument("--seeks", type=int, default=2_000,
                   help="seeks per thread in seekrandom (default: %(default)s)")
    p.add_argument("--scale", type=float, default=None,
                   help="multiplies counts, reads and seeks (default: 1)")
    p.add_argument("--quick", action="store_true",
                   help="scale 1/20, one round, short fio: for trying, data then fits in memory")
    p.add_argument("--memory-limit", type=byte_size, default=byte_size("1536M"), metavar="SIZE",
                   help="of the cgroup of each step (default: 1536M)")
    p.add_argument("--no-cgroup", action="store_true", help="no memory limit")
    p.add_argument("--no-fio", action="store_true", help="do not measure the device itself")
    p.add_argument("--fio-seconds", type=int, help="per random-read job (default: 10, quick 2)")
    p.add_argument("--fio-size", type=byte_size, metavar="SIZE",
                   help="of fio's file (default: 4G, quick 512M)")
    p.add_argument("--step-timeout", type=int, default=7200, metavar="SECONDS",
                   help="a step that runs longer is killed (default: %(default)s)")
    p.add_argument("--keep", action="store_true", help="leave the last databases")
    p.add_argument("--json", metavar="OUT", help="write every measurement")
    p.add_argument("--markdown", metavar="OUT", help="write the report (always printed)")
    o = p.parse_args()
    o.rounds = o.rounds or (1 if o.quick else 3)
    o.scale = o.scale or (QUICK_SCALE if o.quick else 1.0)
    o.fio_seconds = o.fio_seconds or (2 if o.quick else 10)
    o.fio_size = o.fio_size or (byte_size("512M") if o.quick else byte_size("4G"))
    if o.steps[0] != "fillrandom":
        p.error("--steps must begin with fillrandom, which makes the database")
    return o


def make_engines(options):
    made = []
    for name in options.engines:
        program = options.titan if name == "titan" else options.db_bench
        found = shutil.which(program)
        if found is None:
            hint = "cargo build --release -p titan-cli" if name == "titan" else \
                "apt-get install rocksdb-tools"
            sys.exit("%s: no program %s (%s)" % (name, program, hint))
        found = os.path.abspath(found)
        if name == "titan":
            made.append(Titan(name, found, options.titan_arg))
        else:
            made.append(RocksDb(name, found, options.db_bench_arg, name == "blobdb"))
    return made


def main():
    options = arguments()
    engines = make_engines(options)
    os.makedirs(options.dir, exist_ok=True)
    device = Device(options.dir)
    cgroup = NoCgroup()
    if not options.no_cgroup:
        try:
            cgroup = Cgroup(options.memory_limit)
            cgroup.create()
            cgroup.remove()
        except OSError as e:
            sys.exit("cannot limit memory: %s (root is needed; --no-cgroup does without)" % e)
    if not os.access("/proc/sys/vm/drop_caches", os.W_OK):
        say("warning: no right to drop caches; only the databases' own pages are dropped")
    # Ctrl-C and kill both end the child and the cgroup, then report what there is.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    runs, measured, interrupted = [], [], False
    try:
        compare(options, engines, cgroup, device, runs, measured)
    except KeyboardInterrupt:
        say("interrupted; reporting the steps that were done")
        interrupted = True
    report = {
        "config": {
            "engines": [e.name for e in engines], "rounds": options.rounds, "scale": options.scale,
            "interleave": options.interleave, "steps": options.steps, "sizes": options.sizes,
            "reads": options.reads, "seeks": options.seeks, "seek_nexts": SEEK_NEXTS,
            "key_size": KEY_SIZE, "memory_limit": cgroup.limit, "cgroup": cgroup.describe(),
            "write_buffer": WRITE_BUFFER, "block_cache": BLOCK_CACHE, "bloom_bits": BLOOM_BITS,
            "background_jobs": BACKGROUND_JOBS, "titan_args": options.titan_arg,
            "db_bench_args": options.db_bench_arg,
        },
        "machine": machine(device, options.dir),
        "versions": {e.name: e.version() for e in engines},
        "ceilings": measured,
        "runs": runs,
    }
    text = markdown(report)
    print(text)
    if options.markdown:
        write_text(options.markdown, text)
    if options.json:
        write_text(options.json, json.dumps(report, indent=1) + "\n")
    if interrupted:
        return 130
    return 1 if any("error" in r for r in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
