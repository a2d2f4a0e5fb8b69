"""Servers that the tests of a session share."""

from collections.abc import AsyncIterator, Iterator

import pytest
import redis

from tests.ratelimiter.valkey import Valkey, ValkeyCluster, running_cluster, running_valkey
from weir_ratelimiter.store.redis.options import RedisOptions
from weir_ratelimiter.store.redis.store import RedisStore


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
async def store(valkey: Valkey) -> AsyncIterator[RedisStore]:
    """On the shared server, and patient with a machine that stands still."""
    opened = await RedisStore.open(valkey.url, RedisOptions(timeout_s=20))
    yield opened
    await opened.close()


@pytest.fixture
def client(valkey: Valkey) -> Iterator[redis.Redis]:
    """A look at the shared server, whose answers are bytes."""
    with redis.Redis(port=valkey.port) as opened:
        yield opened


@pytest.fixture
def valkey_cluster(valkey_nodes: ValkeyCluster) -> ValkeyCluster:
    """A shared cluster of three, empty."""
    valkey_nodes.flush()
    return valkey_nodes
