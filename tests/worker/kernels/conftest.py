from collections.abc import Iterator

import pytest
import torch

from weir_worker.kernels.build import build
from weir_worker.kernels.library import Kernels
from weir_worker.kernels.processor import cpu_flags, levels

# Every kind of library that runs on this processor.
_PARAMS: list[str] = [*levels(cpu_flags())] or ["none"]


@pytest.fixture(scope="session", params=_PARAMS)
def kernels(request: pytest.FixtureRequest) -> Kernels:
    """The kernels at one level; the libraries stay in the user's cache, as a worker's do."""
    if request.param == "none":
        pytest.skip("kernels need Linux on x86-64 with AVX2")
    return Kernels(build(request.param, timeout_s=300), request.param)


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    """More than most of the tests' work can be shared among evenly."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)
