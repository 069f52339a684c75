"""Fills and empties one mounted volume; see full-volumes."""

import errno
import multiprocessing
import os
import random
import secrets
import shutil
import sys
import time

mount, device, kind, rounds = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
MIB = 1 << 20
WRITERS = 4


def used(path):
    space = os.statvfs(path)
    return (space.f_blocks - space.f_bfree) * space.f_frsize


def available():
    space = os.statvfs(mount)
    return space.f_bavail * space.f_frsize


def make(top, path, n):
    what = random.choice(["0", "100", "4000", "20000", "attributes", "names"]) if kind == "mixed" else kind
    if what == "names":
        if n % 2:
            os.link(os.path.join(top, "file"), path)
        else:
            os.mkdir(path)
        return
    with open(path, "xb") as file:
        if what == "attributes":
            for i in range(8):
                os.setxattr(file.fileno(), f"user.attribute{i}", os.urandom(2000))
        elif what != "0":
            file.write(os.urandom(int(what)))


def name(n):
    """Makes a name, a long one where names alone fill the volume: short ones would take hours."""
    if kind not in ("0", "names"):
        return str(n)
    return f"{n}-{secrets.token_urlsafe(180)}"


def fill(top):
    """Makes files in a directory until ENOSPC; returns how many."""
    n = 0
    try:
        os.makedirs(top)
        open(os.path.join(top, "file"), "xb").close()
        while True:
            if n % 500 == 0:
                os.mkdir(os.path.join(top, str(n // 500)))
            make(top, os.path.join(top, str(n // 500), name(n)), n)
            n += 1
    except OSError as e:
        # A file may have as many names as an inode can count.
        if e.errno not in (errno.ENOSPC, errno.EMLINK):
            raise
    return n


def empty(top):
    """Removes a directory; returns the errors."""
    errors = []
    for round in range(3):
        found = []
        shutil.rmtree(top, onerror=lambda f, path, e: found.append(str(e[1])))
        if not found:
            break
        errors += found
    return errors


def overwrite(size):
    """Overwrites a file on the full volume, at random, ten times its size."""
    path = os.path.join(mount, "overwritten")
    n = 0
    with open(path, "r+b", buffering=0) as file:
        while n < 10 * size:
            length = random.choice([4096, 65536, MIB])
            file.seek(random.randrange(0, size - length))
            file.write(os.urandom(length))
            n += length
            if random.random() < 0.01:
                os.fsync(file.fileno())
        os.fsync(file.fileno())


failed = False
tops = [os.path.join(mount, f"writer{i}") for i in range(WRITERS)]
writers = multiprocessing.Pool(WRITERS)


def wrong(what):
    global failed
    failed = True
    print("FAILED:", what, flush=True)


size = max(4 * MIB, available() // 16 // MIB * MIB)
with open(os.path.join(mount, "overwritten"), "xb") as file:
    for _ in range(size // MIB):
        file.write(os.urandom(MIB))
    os.fsync(file.fileno())
time.sleep(8)
at_first = available()
print(f"{kind}: {at_first // MIB} MiB available", flush=True)
for round in range(rounds):
    started = time.time()
    n = sum(writers.map(fill, tops))
    filled = time.time()
    if available() > at_first // 8:
        wrong(f"ENOSPC with {available() // MIB} MiB available")
    if round == 0:
        try:
            overwrite(size)
            print(f"  overwritten in {time.time() - filled:.1f} s", flush=True)
        except OSError as e:
            wrong(f"overwriting: {e}")
        filled = time.time()
    errors = sum(writers.map(empty, tops), [])
    removed = time.time()
    if errors:
        wrong(f"{len(errors)} removals refused, the first: {errors[0]}")
    while available() < at_first * 97 // 100 and time.time() < removed + 30:
        time.sleep(0.5)
    back = time.time()
    if available() < at_first * 97 // 100:
        wrong(f"{(at_first - available()) // MIB} MiB are not back after 30 s")
    print(
        f"  {n} files in {filled - started:.1f} s, removed in {removed - filled:.1f} s,"
        f" back after {back - removed:.1f} s, {used(device) // MIB} MiB used",
        flush=True,
    )
    if failed:
        break
sys.exit(1 if failed else 0)
