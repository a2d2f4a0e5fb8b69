"""`weir chat`: a conversation at the terminal, streamed over gRPC."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from weir_cli.caller_door import DEFAULT_URL, NOBODY, Ca, Key, Url, check_caller
from weir_cli.errors import CommandError
from weir_client import AsyncClient, Message, Unavailable, WeirClientError
from weir_core.errors.startup import StartupError
from weir_core.tls.trusted_ca import TrustedCa

_HELP = "Enter: send. Ctrl-C: stop the answer. /reset: forget the conversation. Ctrl-D: leave."


def chat(
    url: Url = DEFAULT_URL,
    key: Key = "",
    model: Annotated[str, typer.Option(help="Name or alias; empty: the first that is served.")] = (
        ""
    ),
    system: Annotated[str, typer.Option(help="System message.")] = "",
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest answer, tokens.")] = 512,
    ca: Ca = None,
) -> None:
    """Talk to a model."""
    check_caller(url, key, ca)
    with asyncio.Runner() as runner:
        talk = runner.run(_open(url, key, ca, model, system, max_new_tokens))
        try:
            _converse(runner, talk)
        finally:
            runner.run(talk.client.close())


class Talk:
    """The turns so far and how to add to them."""

    def __init__(self, client: AsyncClient, model: str, system: str, max_new_tokens: int) -> None:
        self.client = client
        self.model = model
        self._max_new_tokens = max_new_tokens
        self._opening: list[Message] = [{"role": "system", "content": system}] if system else []
        self._turns = list(self._opening)

    def reset(self) -> None:
        """Forgets everything but the system message."""
        self._turns = list(self._opening)

    async def say(self, text: str) -> str:
        """Sends a turn, prints the answer as it comes and returns what it cost, for a person.

        A turn that fails or is stopped is not kept.
        """
        turns: list[Message] = [*self._turns, {"role": "user", "content": text}]
        pieces: list[str] = []
        async with self.client.generate(
            self.model, messages=turns, max_new_tokens=self._max_new_tokens
        ) as answer:
            async for piece in answer:
                pieces.append(piece)
                print(piece, end="", flush=True)
        self._turns = [*turns, {"role": "assistant", "content": "".join(pieces)}]
        usage = answer.usage
        if usage is None:
            return ""
        cached = f", {usage.cached_prompt_tokens} cached" if usage.cached_prompt_tokens else ""
        return f"[{usage.prompt_tokens} tokens in{cached}, {usage.completion_tokens} out]"


async def _open(
    url: str, key: str, ca: Path | None, model: str, system: str, max_new_tokens: int
) -> Talk:
    try:
        trusted = TrustedCa(ca).channel_credentials() if ca is not None else None
    except StartupError as error:
        raise CommandError(f"--ca {error}") from None
    client = AsyncClient(url, key, credentials=trusted)
    try:
        names = [served.name for served in await client.list_models()]
    except WeirClientError as error:
        await client.close()
        raise CommandError(f"{url}: {_told(error)}") from None
    if not model and not names:
        raise CommandError("this key may use no model; see allowed_models in the directory")
    return Talk(client, model or names[0], system, max_new_tokens)


def _converse(runner: asyncio.Runner, talk: Talk) -> None:
    interactive = sys.stdin.isatty()
    if interactive:
        print(f"{talk.model}. {_HELP}")
    while True:
        try:
            text = input("> " if interactive else "").strip()
        except (EOFError, KeyboardInterrupt):
            print()
            return
        if text == "/reset":
            talk.reset()
        elif text:
            _turn(runner, talk, text)


def _turn(runner: asyncio.Runner, talk: Talk, text: str) -> None:
    try:
        print(f"\n{runner.run(talk.say(text))}")
    except KeyboardInterrupt:
        print("\n[stopped]")
    except WeirClientError as error:
        print(f"\nerror: {_told(error)}", file=sys.stderr)


def _told(error: WeirClientError) -> str:
    """What a person can do about it: of what the transport says, nothing."""
    unreached = isinstance(error, Unavailable) and not error.reason
    return f"the gateway cannot be reached{NOBODY}" if unreached else str(error)
