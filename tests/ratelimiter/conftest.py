"""Servers that the tests of a session share."""

from collections.abc import Iterator

import pytest

from tests.ratelimiter.valkey import Valkey, ValkeyCluster, running_cluster, running_valkey


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    with running_valkey(tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture(scope="session")
def valkey_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyCluster]:
    with running_cluster(tmp_path_factory.mktemp("valkey_cluster")) as cluster:
        yield cluster


@pytest.fixture
def valkey(valkey_server: Valkey) -> Valkey:
    """A shared server, empty. A test that kills or pauses one runs its own."""
    valkey_server.flush()
    return valkey_server


@pytest.fixture
def valkey_cluster(valkey_nodes: ValkeyCluster) -> ValkeyCluster:
    """A shared cluster of three, empty."""
    valkey_nodes.flush()
    return valkey_nodes
