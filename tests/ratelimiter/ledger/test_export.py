"""Files of rows: each format parses back to what was written, whatever the ids hold."""

import csv
import io
import json
from datetime import datetime
from typing import Any

import pytest

from tests.ratelimiter.ledger.support import ACME, MOST, NOW_MS, Book, charge, grant
from weir.common.v1.lifecycle_pb2 import LifecycleRecord
from weir_ratelimiter.domain.price import Price
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.domain.usage import Usage
from weir_ratelimiter.ledger.export.fields import FIELDS
from weir_ratelimiter.ledger.export.formats import FORMATS
from weir_ratelimiter.ledger.filters import RowFilter
from weir_ratelimiter.ledger.reader import pages

HOSTILE = [
    "=cmd|' /C calc'!A0",
    "+1",
    "-1+2",
    "@SUM(A1)",
    "\t=1",
    "'quoted",
    'a"b,c\r\nd;e\u2028f\u0085g',
    "\N{RIGHT-TO-LEFT OVERRIDE}x\N{PILE OF POO}",
    "{{7*7}}${x}<script>",
    '","amount_nanos":-1,"x":"',
    "",
]


async def fill(book: Book) -> None:
    notes = [grant(f"adj{n}", "tenant:acme/x", n, note=note) for n, note in enumerate(HOSTILE)]
    ids = [
        charge(f"r{n}", subject=Subject(f"-t{n}", text, text, text))
        for n, text in enumerate(HOSTILE)
    ]
    largest = charge("largest", Usage(MOST, 0, MOST), price=Price(0, 0, 1))
    corrected = charge("largest", Usage(), previous=Usage(MOST, 0, MOST), price=Price(0, 0, 1))
    worker = charge("w", life=LifecycleRecord(worker_id="=1+1", trace_id="ab"))
    await book.write(*notes, *ids, largest, corrected, worker)


async def exported(book: Book, name: str) -> bytes:
    file = FORMATS[name]
    content = file.header()
    async for rows in pages(book.ledger.database, RowFilter()):
        content += file.encode(rows)
    return content


async def expected(book: Book) -> list[dict[str, Any]]:
    kinds, qualities = {1: "charge", 2: "adjust", 3: "grant"}, {1: "exact"}
    shown = []
    for row in await book.rows():
        values = {name: getattr(row, name) for name in row.__struct_fields__}
        values["kind"] = kinds[row.kind]
        values["usage_quality"] = qualities[row.usage_quality]
        values["outcome"] = {0: "unspecified", 1: "ok"}[row.outcome]
        values["reserve_time"] = values.pop("reserve_ms")
        values["settle_time"] = values.pop("settle_ms")
        shown.append(values)
    assert len(shown) == 2 * len(HOSTILE) + 3
    return shown


def with_times_in_ms(values: dict[str, Any]) -> dict[str, Any]:
    for name in ("reserve_time", "settle_time"):
        moment = datetime.fromisoformat(values[name])
        assert moment.tzinfo is not None
        values[name] = round(moment.timestamp() * 1_000)
    return values


async def test_json_lines_parse_back(book: Book) -> None:
    await fill(book)
    content = await exported(book, "jsonl")
    parsed = [with_times_in_ms(json.loads(line)) for line in content.decode().split("\n")[:-1]]
    assert parsed == await expected(book)


def from_cell(name: str, cell: str) -> Any:
    number = name.endswith(("_tokens", "_nanos", "_ms")) or name in (
        "requests",
        "price_version",
        "units",
    )
    if number:
        return int(cell) if cell else None
    return cell.removeprefix("'")


async def test_csv_parses_back_and_holds_no_formula(book: Book) -> None:
    await fill(book)
    content = (await exported(book, "csv")).decode()
    header, *lines = csv.reader(io.StringIO(content, newline=""))
    assert tuple(header) == FIELDS
    for line in lines:
        assert len(line) == len(FIELDS)
        for cell in line:
            numeric = cell.lstrip("-").isdecimal()
            assert numeric or not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    parsed = [
        with_times_in_ms(
            {name: from_cell(name, cell) for name, cell in zip(FIELDS, line, strict=True)}
        )
        for line in lines
    ]
    assert parsed == await expected(book)


async def test_cloud_events_have_what_the_standard_asks_for(book: Book) -> None:
    await fill(book)
    lines = (await exported(book, "cloudevents")).decode().split("\n")[:-1]
    rows, shown = await book.rows(), await expected(book)
    for line, row, values in zip(lines, rows, shown, strict=True):
        event = json.loads(line)
        assert event["specversion"] == "1.0"
        assert (event["id"], event["source"]) == (row.id, "urn:tokenweir:ledger")
        assert event["type"] == f"com.tokenweir.ledger.{values['kind']}"
        assert event["subject"] == row.tenant_id
        assert datetime.fromisoformat(event["time"]).timestamp() == row.settle_ms / 1_000
        assert event["datacontenttype"] == "application/json"
        assert with_times_in_ms(event["data"]) == values
        # Attribute names: lower-case letters and digits alone.
        assert all(name.isalnum() and name.islower() for name in event)


async def test_an_event_without_a_tenant_has_no_subject(book: Book) -> None:
    await book.write(grant("adj", "cluster/x", 1, subject=Subject("", "", "", "")))
    (line,) = (await exported(book, "cloudevents")).splitlines()
    assert "subject" not in json.loads(line)


@pytest.mark.parametrize("name", FORMATS)
async def test_a_file_is_the_same_each_time_and_grows_at_its_end(book: Book, name: str) -> None:
    await book.write(*(charge(f"r{number}") for number in range(1_100)))
    first = await exported(book, name)
    assert await exported(book, name) == first
    await book.write(charge("more", at_ms=NOW_MS - 10**9, subject=ACME))
    assert (await exported(book, name)).startswith(first)
