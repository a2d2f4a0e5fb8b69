from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def few_threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """The tiny model is slower by two threads than by one."""
    before = torch.get_num_threads()
    torch.set_num_threads(2 if request.node.get_closest_marker("model") else 1)
    yield
    torch.set_num_threads(before)
