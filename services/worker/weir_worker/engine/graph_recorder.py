"""Records work on a GPU once, to start it again with one call."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch


class RecordedWork(NamedTuple):
    """Work to do again.

    Attributes:
        output: what it computes; the same memory each time.
        replay: starts it; its inputs are read where they were when it was recorded.
    """

    output: torch.Tensor
    replay: Callable[[], None]


class GraphRecorder(Protocol):
    """Makes `RecordedWork`."""

    def record(self, compute: Callable[[], torch.Tensor]) -> RecordedWork:
        """Run the work a few times, and record it."""
        ...


class CudaGraphRecorder:
    """Records CUDA graphs that share one pool of memory: they never run at the same time."""

    def __init__(self) -> None:
        self._pool: Any = None

    def record(self, compute: Callable[[], torch.Tensor]) -> RecordedWork:
        """See `GraphRecorder`. Kernels are compiled in the runs before, not in the recorded one."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                compute()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            output = compute()
        self._pool = graph.pool()
        return RecordedWork(output, graph.replay)
