"""Where the metrics of the processes are, in a file that Prometheus follows (`file_sd_configs`)."""

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from weir_cli.stack.services import GATEWAY

FILE = "prometheus_targets.json"
_PERIOD_S = 2.0


class ScrapeTargets:
    """Keeps the file as the processes are.

    Args:
        folder: where it is written.
        read: what every process announced when it was ready, by its name.
        encrypted: the gateway is reached by https.

    Attributes:
        path: the file.
        period_s: how often it looks.
    """

    def __init__(
        self, folder: Path, read: Callable[[], Mapping[str, Mapping[str, str]]], *, encrypted: bool
    ) -> None:
        self.path = folder / FILE
        self._read = read
        self._encrypted = encrypted
        self._written = ""
        self.period_s = _PERIOD_S

    async def run(self) -> None:
        """Looks every `period_s`: workers come and go, and what restarts may have a new port."""
        while True:
            # On a full disk the file stays behind, and everything else goes on.
            with suppress(OSError):
                self.write()
            await asyncio.sleep(self.period_s)

    def write(self) -> None:
        """Writes the file if it is not up to date."""
        text = json.dumps(self._groups(), indent=2) + "\n"
        if text == self._written:
            return
        fresh = self.path.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        os.replace(fresh, self.path)
        self._written = text

    def _groups(self) -> list[dict[str, object]]:
        groups: list[dict[str, object]] = []
        for name, ready in sorted(self._read().items()):
            address = ready.get("metrics") or (ready.get("http") if name == GATEWAY else None)
            if address is None:
                continue
            labels = {"service": name.partition("-")[0], "instance": name}
            if name == GATEWAY and self._encrypted:
                labels["__scheme__"] = "https"
            groups.append({"targets": [address], "labels": labels})
        return groups
