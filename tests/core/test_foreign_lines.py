"""What libraries log: their own words, and nothing of what they were given."""

import asyncio
import gc
import io
import json
import logging
import sys
import threading
from typing import Any

import pytest

from weir_core.telemetry.foreign import foreign_line
from weir_core.telemetry.logs import get_logger, setup_logs
from weir_core.telemetry.redaction import MASK
from weir_core.telemetry.uncaught import log_uncaught

PROMPT = "my diagnosis is confidential"
KEY = "wr_live_ab12cd34ef56_0123456789abcdefghijABCDEFGHIJ0123XYZ"


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("template", "arguments", "told"),
    [
        ("Invalid HTTP request received.", (), "Invalid HTTP request received."),
        ("got %s of %d", ("GET", 3), "got GET of 3"),
        ("cannot parse %s", (PROMPT,), f"cannot parse {MASK}"),
        ("cannot parse %r", (PROMPT,), f"cannot parse '{MASK}'"),
        ("failed: %s", (ValueError(PROMPT),), "failed: <ValueError>"),
        ("row %s", ([PROMPT],), "row <list>"),
        ("row %(row)s", ({"row": PROMPT},), f"row {MASK}"),
        ('HTTP Request: %s %s "%d"', ("POST", f"http://a/b?key={KEY}", 200), None),
        ("first\nsecond: " + PROMPT, (), "first"),
    ],
)
def test_a_warning_keeps_numbers_and_single_words(
    log_stream: io.StringIO, template: str, arguments: tuple[Any, ...], told: str | None
) -> None:
    logging.getLogger("lib").warning(template, *arguments)
    [line] = lines(log_stream)
    assert told is None or line["event"] == told
    assert PROMPT not in log_stream.getvalue()
    assert KEY[-20:] not in log_stream.getvalue()


def test_fields_of_libraries_are_words_too(log_stream: io.StringIO) -> None:
    logging.getLogger("lib").warning("x", extra={"detail": PROMPT, "body": "one", "n": 1, "w": "a"})
    [line] = lines(log_stream)
    assert (line["detail"], line["body"], line["n"], line["w"]) == (MASK, MASK, 1, "a")


def test_what_they_chat_is_not_written_even_at_debug(log_stream: io.StringIO) -> None:
    """Drivers tell statements with their values, HTTP clients headers with their keys."""
    setup_logs("weir-test", stream=log_stream, level="DEBUG")
    for name in ("aiosqlite", "httpcore2.http11", "sqlalchemy.engine", "grpc", "anything.new"):
        logging.getLogger(name).debug("executing %s", PROMPT)
        logging.getLogger(name).info("executing %s", PROMPT)
    logging.getLogger("uvicorn.error").info("Uvicorn running on %s://%s:%d", "http", "0.0.0.0", 80)
    assert [line["event"] for line in lines(log_stream)] == ["Uvicorn running on http://0.0.0.0:80"]


@pytest.mark.parametrize("arguments", [("too few",), ({"a": 1},), (PROMPT, PROMPT, PROMPT)])
def test_arguments_that_do_not_fit_are_left_out(arguments: Any) -> None:
    record = logging.makeLogRecord({"msg": "%s of %d", "args": arguments})
    assert foreign_line(record) == "%s of %d"


async def test_a_task_that_nobody_awaited_tells_no_message(log_stream: io.StringIO) -> None:
    async def fail() -> None:
        raise ValueError(PROMPT)

    task = asyncio.create_task(fail())
    await asyncio.wait([task])
    del task
    gc.collect()
    [line] = lines(log_stream)
    assert line["event"] == "Task exception was never retrieved"
    assert [link["type"] for link in line["exception"]] == ["builtins.ValueError"]
    assert PROMPT not in log_stream.getvalue()


def test_nor_does_a_thread_or_a_finaliser(
    log_stream: io.StringIO,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module, name in ((sys, "excepthook"), (sys, "unraisablehook"), (threading, "excepthook")):
        monkeypatch.setattr(module, name, getattr(module, name))
    log_uncaught()

    def fail() -> None:
        raise ValueError(PROMPT)

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()

    class Bad:
        def __del__(self) -> None:
            raise ValueError(PROMPT)

    Bad()
    sys.excepthook(ValueError, ValueError(PROMPT), None)
    events = [line["event"] for line in lines(log_stream)]
    assert events == ["thread_failed", "exception_ignored", "process_failed"]
    told = log_stream.getvalue() + capsys.readouterr().err
    assert PROMPT not in told


def test_a_line_is_one_line_whatever_it_quotes(log_stream: io.StringIO) -> None:
    forged = 'x\n{"event": "admin logged in"}\r\n\u2028\x85\x1b[31m\x9b1m'
    logging.getLogger("lib").warning(forged)
    logging.getLogger("lib").warning("got %s", forged)
    get_logger("weir.x").info("event", worker_id=forged)
    assert log_stream.getvalue().count("\n") == 3
    assert "\x1b" not in log_stream.getvalue()
    assert lines(log_stream)[2]["worker_id"] == forged
