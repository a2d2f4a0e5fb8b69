"""`weir sessions` and `weir prefixes` against a real gateway."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.gateway.harness import MODEL, Gateway
from weir_cli.app import app
from weir_cli.errors import CommandError

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def run(gateway: Gateway, *words: str, key: str | None = None) -> Result:
    options = ["--url", gateway.app.grpc_address, "--key", key or gateway.key.secret]
    return await asyncio.to_thread(CliRunner().invoke, app, [*words, *options])


async def done(gateway: Gateway, *words: str) -> Any:
    result = await run(gateway, *words)
    assert result.exit_code == 0, result.output
    return result.output


async def test_sessions(gateway: Gateway) -> None:
    made = json.loads(
        await done(
            gateway,
            *("sessions", "create", "small", "--conversation-id", "c", "--idle-ttl", "700"),
            *("-o", "json"),
        )
    )
    assert (made["model"], made["conversation_id"], made["idle_ttl_s"]) == (MODEL, "c", 700)
    assert made["id"] in await done(gateway, "sessions", "list")
    shown = json.loads(await done(gateway, "sessions", "show", made["id"], "-o", "json"))
    assert shown == made
    assert "is deleted" in await done(gateway, "sessions", "delete", made["id"])
    again = await run(gateway, "sessions", "delete", made["id"])
    assert isinstance(again.exception, CommandError)
    assert "there is no such session" in str(again.exception)
    stranger = await run(gateway, "sessions", "list", key=gateway.other_key.secret)
    assert made["id"] not in stranger.output


async def test_prefixes(gateway: Gateway, tmp_path: Path) -> None:
    text = tmp_path / "rules.txt"
    text.write_text("Be brief. ")
    await done(gateway, "prefixes", "put", "cli", str(text), "--cold")
    chat = tmp_path / "rules.yaml"
    tool = {"type": "function", "function": {"name": "f"}}
    chat.write_text(json.dumps({"messages": [{"role": "system", "content": "s"}], "tools": [tool]}))
    await done(gateway, "prefixes", "put", "cli", str(chat), "--cold", "--model", MODEL)
    listed = json.loads(await done(gateway, "prefixes", "list", "-o", "json"))
    assert [(p["name"], p["version"]) for p in listed if p["name"] == "cli"] == [
        ("cli", 1),
        ("cli", 2),
    ]
    first = json.loads(
        await done(gateway, "prefixes", "show", "cli", "--version", "1", "-o", "json")
    )
    assert first["text"] == "Be brief. "
    assert "worker-1" in await done(gateway, "prefixes", "warm", "cli")
    newest = json.loads(await done(gateway, "prefixes", "show", "cli", "-o", "json"))
    assert (newest["messages"], newest["tools"]) == ([{"role": "system", "content": "s"}], [tool])
    assert [one["worker_id"] for one in newest["warmths"]] == ["worker-0", "worker-1"]
    await done(gateway, "prefixes", "delete", "cli", "--version", "2")
    await done(gateway, "prefixes", "delete", "cli")
    gone = await run(gateway, "prefixes", "show", "cli")
    assert "there is no prefix 'cli'" in str(gone.exception)


async def test_what_is_wrong_is_said_in_one_line(gateway: Gateway, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("[1, 2]")
    result = await run(gateway, "prefixes", "put", "x", str(bad))
    assert "must hold `messages`" in str(result.exception)
    for words, told in (
        (["--key", "", "--url", "h:1"], "no API key"),
        (["--key", "k", "--url", "http://h"], "host:port"),
    ):
        failed = CliRunner().invoke(app, ["sessions", "list", *words], env={"WEIR_API_KEY": ""})
        assert told in str(failed.exception)
