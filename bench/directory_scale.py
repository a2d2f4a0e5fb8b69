"""What a directory of thousands of tenants costs: to fill, to load, to change.

`python -m bench.directory_scale [TENANTS]`, 20 or more; each has two users, two keys and a limit
of its own. Two gateways' directories share a SQLite file; times are CPU seconds of the process,
but for the time until the other has a change. The last line on stdout is JSON.
"""

import asyncio
import hashlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from weir_core.clock import SystemClock
from weir_core.database.url import parse_database_url
from weir_gateway.admin.key_ring import KeyRing
from weir_gateway.directory.document import Document
from weir_gateway.directory.publisher import DirectoryPublisher
from weir_gateway.directory.sql.source import SqlDirectory

_CHANGES = 20
_POLL_S = 0.25


async def main(tenants: int) -> dict[str, Any]:
    """The figures."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/directory.sqlite"
        document = Document.model_validate(_document(tenants))
        begin = time.process_time()
        async with _opened(url, document):
            fill_s = time.process_time() - begin
        before, begin = _rss_mb(), time.process_time()
        async with _opened(url, document) as (source, publisher):
            load_s, mb = time.process_time() - begin, _rss_mb() - before
            async with _opened(url, document) as (_, other):
                changes = await _change(KeyRing(source, SystemClock()), publisher, other)
    return {"tenants": tenants, "fill_s": fill_s, "load_s": load_s, "rss_mb": mb, **changes}


async def _change(
    keys: KeyRing, publisher: DirectoryPublisher, other: DirectoryPublisher
) -> dict[str, float]:
    cpu_ms, seen_s = [], []
    for number in range(_CHANGES):
        begin, now = time.process_time(), time.monotonic()
        await keys.revoke("bench", f"k{number}x0")
        cpu_ms.append(1_000 * (time.process_time() - begin))
        while other.version < publisher.version:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        seen_s.append(time.monotonic() - now)
    return {"change_cpu_ms": statistics.median(cpu_ms), "seen_by_other_s": max(seen_s)}


@asynccontextmanager
async def _opened(
    url: str, document: Document
) -> AsyncIterator[tuple[SqlDirectory, DirectoryPublisher]]:
    clock = SystemClock()
    publisher = DirectoryPublisher(clock, shared=True)
    database = parse_database_url(url, "url", "bench")
    source = SqlDirectory(database, publisher, clock, poll_s=_POLL_S)
    try:
        await source.load(lambda: document)
        source.start()
        yield source, publisher
    finally:
        await source.stop()


def _document(tenants: int) -> dict[str, Any]:
    model = {"name": "m", "versions": [{"version": "1", "folder": "/m"}], "max_context": 1_000}
    return {
        "plans": [{"id": "p", "limits": [{"resource": "tokens", "rate": "100k/min"}]}],
        "pools": [{"name": "default"}],
        "models": [model],
        "tenants": [_tenant(number) for number in range(tenants)],
    }


def _tenant(number: int) -> dict[str, Any]:
    digests = [hashlib.sha256(f"{number}.{key}".encode()).hexdigest() for key in range(2)]
    return {
        "id": f"t{number}",
        "plan": "p",
        "limits": [{"resource": "requests", "rate": "5/s"}],
        "users": [{"id": "u"}, {"id": "v"}],
        "keys": [
            {"id": f"k{number}x{at}", "user": "u", "hash": digest}
            for at, digest in enumerate(digests)
        ],
    }


def _rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4_096 / 1e6


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000))))
