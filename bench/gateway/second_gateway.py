"""Another gateway process beside that of a stack, which it follows."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import yaml

from weir_cli.stack.child import Child, ChildSpec
from weir_cli.stack.local import LocalStack
from weir_cli.stack.running import scheduler_door
from weir_cli.stack.services import GATEWAY

_START_S = 60.0
_NAME = "gateway-2"


@asynccontextmanager
async def second_gateway(stack: LocalStack) -> AsyncIterator[str]:
    """Its HTTP address. Same ratelimiter, scheduler, workers and state; the directory is the
    first one's.
    """
    folder = stack.welcome.state
    settings = yaml.safe_load((folder / f"{GATEWAY}.yaml").read_text())
    del settings["directory_file"]
    settings |= {
        "role": "edge",
        "http_address": "127.0.0.1:0",
        "grpc_address": "127.0.0.1:0",
        "directory_address": stack.address(GATEWAY),
    }
    config = folder / f"{_NAME}.yaml"
    config.write_text(yaml.safe_dump(settings))
    secret = scheduler_door("", folder).token.get_secret_value()
    child = Child(
        ChildSpec(
            _NAME,
            [sys.executable, "-P", "-m", "weir_gateway", "--config", str(config)],
            log=folder / f"{_NAME}.log",
            environment={"WEIR_CLUSTER_TOKEN": secret},
        )
    )
    try:
        await child.start(_START_S)
        yield child.ready["http"]
    finally:
        await child.stop()
