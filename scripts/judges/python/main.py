"""Calls of Python's clients on a node: prints a line a check, and "N passed, N failed".

tikv-python has raw keys; tikv-client, a binding of an early client in Rust, raw keys and transactions.
"""

import asyncio
import sys

import tikv
import tikv_client.asynchronous as binding

address = sys.argv[1]
passed = failed = 0


def check(name, found, expected):
    global passed, failed
    if found == expected:
        passed += 1
        print("ok  ", name)
    else:
        failed += 1
        print("FAIL", name, found, "in place of", expected)


def pure():
    with tikv.RawClient([address]) as client, tikv.RawClient([address], atomic=True) as swapper:
        check("get of no key", client.get(b"p/none"), None)
        client.put(b"p/a", b"1")
        check("get", client.get(b"p/a"), b"1")
        many = {b"p/%04d" % n: b"%d" % n for n in range(2000)}
        client.put_many(many.items())
        check("many gets", client.get_many(many), many)
        check("scan", list(client.scan(b"p/0", b"p/1")), sorted(many.items())[:1000])
        check("scan of keys", len(list(client.scan_keys(b"p/", b"p0"))), 2001)
        swapped = swapper.compare_and_swap(b"p/a", b"1", b"2")
        check("swap", (swapped.swapped, client.get(b"p/a")), (True, b"2"))
        swapped = swapper.compare_and_swap(b"p/a", b"1", b"3")
        check("swap of another value", tuple(swapped), (False, b"2"))
        client.put(b"p/ttl", b"1", ttl=1000)
        check("time to live", 990 <= client.ttl(b"p/ttl") <= 1000, True)
        client.delete(b"p/a")
        client.delete_many([b"p/0000", b"p/0001"])
        check("deleted", client.get_many([b"p/a", b"p/0000", b"p/0002"]), {b"p/0002": b"2"})
        client.delete_range(b"p/", b"p0")
        check("deleted range", list(client.scan(b"p/", b"p0")), [])


async def bound():
    raw = await binding.RawClient.connect([address])
    await raw.put(b"b/a", b"1")
    await raw.batch_put({b"b/b": b"2", b"b/c": b"3"})
    check("bound: raw get", await raw.get(b"b/a"), b"1")
    check("bound: raw gets", await raw.batch_get([b"b/a", b"b/c"]), [(b"b/a", b"1"), (b"b/c", b"3")])
    await raw.delete(b"b/a")
    check("bound: raw scan", await raw.scan_keys(b"b/", b"b0", 10), [b"b/b", b"b/c"])
    client = await binding.TransactionClient.connect([address])
    for pessimistic in [False, True]:
        kind = "pessimistic" if pessimistic else "optimistic"
        transaction = await client.begin(pessimistic)
        await transaction.put(b"t/a", kind.encode())
        await transaction.put(b"t/b", b"2")
        check(f"bound: own write, {kind}", await transaction.get(b"t/a"), kind.encode())
        await transaction.commit()
        transaction = await client.begin(pessimistic)
        check(f"bound: get, {kind}", await transaction.get(b"t/a"), kind.encode())
        found = await transaction.scan(b"t/", b"t0", 10)
        check(f"bound: scan, {kind}", list(found), [(b"t/a", kind.encode()), (b"t/b", b"2")])
        await transaction.delete(b"t/b")
        await transaction.commit()
        snapshot = client.snapshot(await client.current_timestamp(), pessimistic)
        check(f"bound: snapshot, {kind}", await snapshot.get(b"t/b"), None)


for part in [pure, lambda: asyncio.run(bound())]:
    try:
        part()
    except Exception as error:  # What a client refuses is a failed check, and the rest goes on.
        check("no error", repr(error), None)
print(f"{passed} passed, {failed} failed")
