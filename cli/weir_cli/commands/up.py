"""`weir up`: the whole of Tokenweir on one machine, under one supervisor."""

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from weir_cli.stack.local import LocalStack, StackOptions
from weir_cli.stack.signals import StopSignals
from weir_cli.stack.worker_range import WorkerRange


def up(
    workers: Annotated[
        str,
        typer.Option(
            metavar="N|MIN..MAX",
            help="Worker processes of each model; MIN..MAX starts MIN, and starts and drains more "
            "as the load asks for (docs/scaling.md).",
        ),
    ] = "1",
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65_535,
            help="HTTP port; gRPC is one above, the others follow; 0: free ones. "
            "Default 8000, or a free one if taken.",
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="In place of the default model: a folder (safetensors, config.json, "
            "tokenizer.json), a GGUF file, or a name of `weir models ls` or its alias. Repeat it "
            "to serve several.",
        ),
    ] = None,
    kv_memory: Annotated[
        list[str] | None,
        typer.Option(
            help="Memory of each worker's KV cache, such as 512MiB, or MODEL=SIZE for the "
            "workers of one model. Default 1GiB.",
        ),
    ] = None,
    upstream_url: Annotated[
        str,
        typer.Option(
            help="OpenAI-compatible engine that computes in the place of the worker's own, such "
            "as http://127.0.0.1:9000/v1, or grpc://host:port of vLLM; --model is then a folder "
            "with its tokenizer.json and config.json. Its key, if any: environment "
            "WEIR_WORKER__UPSTREAM_API_KEY.",
        ),
    ] = "",
    upstream_model: Annotated[str, typer.Option(help="The model's name there.")] = "",
    null: Annotated[
        bool, typer.Option("--null", help="Serve the model that computes nothing.")
    ] = False,
    directory: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            resolve_path=True,
            help="Directory file of your own in place of the demo tenant; put a key of it into "
            "WEIR_API_KEY for the first answer.",
        ),
    ] = None,
    state_dir: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            help="Folder for settings, journal and logs, kept for the next start. "
            "Default: a new one in $TOKENWEIR_HOME/run (TOKENWEIR_HOME: ~/.cache/tokenweir).",
        ),
    ] = None,
    otlp: Annotated[
        str, typer.Option(help="OTLP/gRPC endpoint for traces, such as http://127.0.0.1:4317.")
    ] = "",
    store: Annotated[
        str,
        typer.Option(
            help="Redis or Valkey for the limits, redis://host:port/db, in place of memory; one "
            "with a password better by environment WEIR_RATELIMITER__STORE.",
        ),
    ] = "",
    database: Annotated[
        str,
        typer.Option(
            help="Keep tenants, keys and plans in a database, sqlite:////path/to/file or "
            "postgresql://...; the directory file fills it once. Then `weir tenants`, `weir keys` "
            "and so on change them (docs/administration.md).",
        ),
    ] = "",
    schedulers: Annotated[
        int,
        typer.Option(
            min=1,
            max=5,
            help="Schedulers, of which one is active and the others stand by "
            "(docs/high-availability.md).",
        ),
    ] = 1,
    tls: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            help="Folder of `weir tls init`, made if it holds no CA: TLS for clients, and between "
            "the services (docs/security.md).",
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End after the first answer.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print failures alone.")] = False,
) -> None:
    """Start gateway, ratelimiter, scheduler and workers, and serve until Ctrl-C."""
    bounds = WorkerRange.parse(workers)
    options = StackOptions(
        workers=bounds.least,
        most_workers=bounds.most,
        port=port,
        models=tuple(model or ()),
        kv_memory=tuple(kv_memory or ()),
        upstream_url=upstream_url,
        upstream_model=upstream_model,
        null=null,
        directory=directory,
        state_dir=state_dir,
        otlp=otlp,
        store=store,
        schedulers=schedulers,
        database=database,
        api_key=os.environ.get("WEIR_API_KEY", ""),
        tls=tls,
    )
    stack = LocalStack(options, _write_nothing if quiet else _write, warn=_warn)
    asyncio.run(_run(stack, once))


async def _run(stack: LocalStack, once: bool) -> None:
    with StopSignals() as signals:
        try:
            if await signals.run_unless_stopped(stack.start()):
                await signals.run_unless_stopped(stack.serve(once))
        finally:
            await signals.run_unless_hurried(stack.stop(), stack.kill)


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read it has left; the services go on
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _write_nothing(_: str) -> None:
    return


def _warn(line: str) -> None:
    with contextlib.suppress(BrokenPipeError):  # as above
        print(line, file=sys.stderr, flush=True)
