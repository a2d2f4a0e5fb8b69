"""Channels to several processes of a service of which one is active at a time."""

from collections.abc import Sequence

from pydantic import SecretStr

from weir_core.errors import Reason, WeirError
from weir_core.errors.startup import StartupError
from weir_core.host_port import split_address
from weir_core.rpc.channel import ChannelTls, ServiceChannel, open_channel
from weir_core.rpc.framed import Backoff

_LONGEST_S = 1.0


class LeaderChannels:
    """Finds the active one: by what a standby tells, else in turn.

    Only the addresses that were given are ever called, whatever a standby names: the cluster
    secret goes with every call.

    Args:
        addresses: `host:port`, several separated by commas.
        name: of the service.
        knob: setting to name in errors.
        token: cluster secret.
        tls: see `open_channel`.

    Raises StartupError when an address is none.
    """

    def __init__(
        self,
        addresses: str,
        *,
        name: str,
        knob: str,
        token: SecretStr | None,
        tls: ChannelTls | None = None,
    ) -> None:
        self.addresses = split_addresses(addresses, knob)
        self._channels = [
            open_channel(address, name=name, token=token, tls=tls) for address in self.addresses
        ]
        self._index = 0
        self._failed: set[int] = set()

    @property
    def current(self) -> ServiceChannel:
        """The one to be tried next, or in use."""
        return self._channels[self._index]

    @property
    def address(self) -> str:
        """Of `current`."""
        return self.addresses[self._index]

    def backoff(self) -> Backoff | None:
        """Waits between attempts: short where there is another to try; None for the default."""
        if len(self.addresses) == 1:
            return None
        return Backoff(first_s=0.05, most_s=_LONGEST_S)

    def answered(self) -> None:
        """The current one is active."""
        self._failed.clear()

    def lost(self, error: WeirError) -> None:
        """The stream to the current one has ended or was refused: chooses who is tried next."""
        self._failed.add(self._index)
        hinted = self._hinted(error)
        if hinted is not None and hinted not in self._failed:
            self._index = hinted
            return
        if len(self._failed) == len(self._channels):
            self._failed = {self._index}
        self._index = next(
            index
            for step in range(1, len(self._channels) + 1)
            if (index := (self._index + step) % len(self._channels)) not in self._failed
            or len(self._channels) == 1
        )

    async def close(self) -> None:
        """Closes every channel."""
        for channel in self._channels:
            await channel.close()

    def _hinted(self, error: WeirError) -> int | None:
        if error.reason is not Reason.NOT_LEADER:
            return None
        leader = error.metadata.get("leader", "")
        return self.addresses.index(leader) if leader in self.addresses else None


def split_addresses(addresses: str, knob: str) -> Sequence[str]:
    """The addresses of a list. Raises StartupError."""
    parts = [part.strip() for part in addresses.split(",")]
    for part in parts:
        if "://" not in part and not part.startswith("unix:"):
            split_address(part, knob)
    if len(set(parts)) != len(parts):
        raise StartupError(f"{knob} is {addresses!r}; it names an address twice")
    return parts
