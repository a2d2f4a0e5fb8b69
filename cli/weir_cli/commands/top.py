"""`weir top`: a live view of a deployment."""

import asyncio
import sys
from typing import Annotated

import typer
from rich.console import Console

from weir_cli.administration import Address, StateDirOption, admin_door
from weir_cli.top.board import Board, Order
from weir_cli.top.view import View

_WIDE = 140


def top(
    once: Annotated[
        bool, typer.Option("--once", help="Print it once and end; also into a pipe.")
    ] = False,
    tenant: Annotated[str, typer.Option(help="Requests of this tenant alone.")] = "",
    sort: Annotated[Order, typer.Option(help="Order of tenants and workers.")] = Order.TOKENS,
    every: Annotated[float, typer.Option(min=1, max=60, help="Seconds between two looks.")] = 2.0,
    state_dir: StateDirOption = None,
    address: Address = "",
) -> None:
    """Show tokens, queues, workers and tenants as they are, every other second.

    Rates and percentiles are over the last 30 s. KV: # held by requests, = kept by sessions,
    - cached, . free. RUN is what an engine runs, and what waits in it; OTHERS is what processes
    that are not the worker's use of its device. USE OF LIMITS names the fullest three of a tenant.

    Keys: q quits, s sorts, t asks for a tenant, a shows all.
    """
    door = admin_door(address, state_dir)
    view = View(door, Board(tenant, sort), every)
    if once or not (sys.stdout.isatty() and sys.stdin.isatty()):
        console = Console(width=None if sys.stdout.isatty() else _WIDE)
        asyncio.run(view.once(console))
    else:
        asyncio.run(view.live(Console()))
