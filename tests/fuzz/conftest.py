from collections.abc import Iterator

import pytest

from tests.fuzz.site import FuzzSite, fuzz_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FuzzSite]:
    with fuzz_site(tmp_path_factory.mktemp("fuzzed")) as site:
        yield site
