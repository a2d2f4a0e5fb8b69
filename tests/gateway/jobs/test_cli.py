"""`weir jobs`, against a gateway."""

import asyncio
import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.gateway.harness import MODEL, Gateway
from weir_cli.app import app
from weir_cli.errors import CommandError

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def run(site: Gateway, *words: str, form: str = "json") -> Result:
    command = ["jobs", *words, "-o", form, "--url", site.app.grpc_address]
    command += ["--key", site.key.secret]
    return await asyncio.to_thread(CliRunner().invoke, app, command)


async def told(site: Gateway, *words: str) -> Any:
    result = await run(site, *words)
    assert result.exit_code == 0, result.exception
    return json.loads(result.stdout)


async def test_submit_watch_get_list_cancel(site: Gateway) -> None:
    job = await told(site, "submit", MODEL, "hi", "--max-new-tokens", "3")
    watched = await run(site, "watch", job["id"], form="yaml")
    assert "state: succeeded" in watched.stdout
    found = await told(site, "get", job["id"])
    assert (found["state"], found["text"]) == ("succeeded", "t0 t1 t2 ")
    assert found["tokens"] > 3
    listed = await told(site, "list", "--state", "succeeded")
    assert job["id"] in {one["id"] for one in listed}
    assert (await told(site, "cancel", job["id"]))["state"] == "succeeded"
    shown = (await run(site, "list", form="table")).stdout
    assert shown.splitlines()[0].split()[:3] == ["ID", "STATE", "MODEL"]


async def test_refusals_are_one_line(site: Gateway) -> None:
    for words in (("get", "job_none"), ("submit", "no-such-model", "hi"), ("list", "--state", "x")):
        result = await run(site, *words)
        assert isinstance(result.exception, CommandError)


async def test_nobody_at_the_door_is_told_with_what_to_do(site: Gateway) -> None:
    result = await asyncio.to_thread(
        CliRunner().invoke,
        app,
        ["jobs", "list", "--url", "127.0.0.1:1", "--key", site.key.secret],
    )
    told = str(result.exception)
    assert told.startswith("127.0.0.1:1: the gateway cannot be reached; is it running")
    assert "--url" in told


async def test_a_job_that_did_not_succeed_fails_its_watch(site: Gateway) -> None:
    site.scheduler.hold = True
    job = await told(site, "submit", MODEL, "hi", "--max-new-tokens", "3")
    await told(site, "cancel", job["id"])
    watched = await run(site, "watch", job["id"], form="yaml")
    assert "state: cancelled" in watched.stdout
    assert watched.exit_code == 1
