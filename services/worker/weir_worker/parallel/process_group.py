"""Joins torch's default process group: NCCL between GPUs, gloo between CPUs."""

from datetime import timedelta

import torch
from torch import distributed
from torch._C._distributed_c10d import TCPStore

_HOST = "127.0.0.1"


def serve_store(size: int, timeout_s: float) -> TCPStore:
    """The store where ranks find each other, on a free port; `port` tells which."""
    return TCPStore(
        _HOST,
        0,
        size,
        is_master=True,
        timeout=timedelta(seconds=timeout_s),
        wait_for_workers=False,
    )


def join(
    rank: int,
    size: int,
    device: torch.device,
    timeout_s: float,
    *,
    store: TCPStore | None = None,
    port: int = 0,
) -> None:
    """Become a rank; no operation of the group takes longer than the timeout.

    Raises:
        RuntimeError: the others did not come within the timeout.
    """
    timeout = timedelta(seconds=timeout_s)
    if store is None:
        store = TCPStore(_HOST, port, size, is_master=False, timeout=timeout)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    distributed.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        store=store,
        rank=rank,
        world_size=size,
        timeout=timeout,
    )
