"""Which state a server holds, and whether it still is that one."""

from weir_core.telemetry.logs import get_logger
from weir_ratelimiter.store.redis.checks import epoch_of
from weir_ratelimiter.store.redis.record_calls import Memory
from weir_ratelimiter.store.redis.server import RedisServer

_log = get_logger(__name__)


class Epoch:
    """The epoch of a server, as last seen.

    Attributes:
        memory: what reservations are judged by while the server holds this state.
        states_lost: how often the server turned out to hold another state than before.
    """

    def __init__(self, server: RedisServer, epoch: str, remember_ms: int) -> None:
        self.memory = Memory(epoch, remember_ms)
        self.states_lost = 0
        self._server = server

    async def look(self) -> str:
        """Ask the server; another state than before is logged and counted."""
        epoch = await epoch_of(self._server)
        known = self.memory
        if epoch != known.epoch:
            self.states_lost += 1
            _log.error("state_lost", server=self._server.address, before=known.epoch, now=epoch)
            self.memory = Memory(epoch, known.remember_ms)
        return epoch
