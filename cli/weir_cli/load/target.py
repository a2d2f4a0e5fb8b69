"""Whom a load is sent to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from weir_cli.load.exchange import Exchange
from weir_cli.load.prompts import Prompt


@dataclass(frozen=True, slots=True)
class Asked:
    """What all requests of a load have in common.

    Attributes:
        model: its name at the server.
        keys: secret by the load's name of a tenant; an empty one is not sent.
        ignore_eos: ask for exactly the wanted tokens, where the server knows how.
        temperature: of sampling.
    """

    model: str
    keys: Mapping[str, str]
    ignore_eos: bool = True
    temperature: float = 0.0


class Target(Protocol):
    """A server, through one of its doors."""

    async def send(self, exchange: Exchange, prompt: Prompt) -> None:
        """Asks, and writes down what comes; a failure is written down too, not raised."""

    async def close(self) -> None:
        """Ends the connections."""
