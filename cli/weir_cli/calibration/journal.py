"""What a calibration has measured so far: one line a load, on the disk before the next begins."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weir_cli.calibration.measurement import Measurement, measurement_of
from weir_cli.errors import CommandError

FORMAT = 2


class Journal:
    """Measurements by name, in a file that a kill leaves readable.

    Args:
        path: of the file; its folder exists.
        facts: what all of it was measured with: options, worker, model. A journal of other facts
            is not gone on with.

    Raises:
        CommandError: the file is of other facts, or cannot be read.
    """

    def __init__(self, path: Path, facts: Mapping[str, Any]) -> None:
        self._path = path
        self._facts = json.loads(json.dumps(facts))
        self.measured: dict[str, Measurement] = {}
        if path.exists():
            self._read()
        else:
            self._write({"format": FORMAT, "facts": self._facts})

    def add(self, measurement: Measurement) -> None:
        """Keeps one more."""
        self._write(measurement.as_json())
        self.measured[measurement.name] = measurement

    def _read(self) -> None:
        head, *lines = self._whole_lines()
        if head.get("format") != FORMAT or head.get("facts") != self._facts:
            changed = [
                name
                for name in self._facts
                if (head.get("facts") or {}).get(name) != self._facts[name]
            ]
            if head.get("format") != FORMAT:
                changed = ["rules: it is of another version of this command"]
            raise CommandError(
                f"{self._path} was measured with other {', '.join(changed)}; give "
                "another --out, or --fresh to begin again"
            )
        for line in lines:
            measurement = measurement_of(line)
            self.measured[measurement.name] = measurement

    def _whole_lines(self) -> list[dict[str, Any]]:
        """All but a last one that a kill has cut, which is cut off."""
        text = self._path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        if len(whole) < len(text):
            with self._path.open("r+b") as file:
                file.truncate(len(whole.encode()))
        try:
            lines = [json.loads(line) for line in whole.splitlines()]
        except ValueError as error:
            raise CommandError(f"{self._path} is no journal of a calibration: {error}") from None
        if not lines:
            self._path.unlink()
            self._write({"format": FORMAT, "facts": self._facts})
            return [{"format": FORMAT, "facts": self._facts}]
        return lines

    def _write(self, line: Mapping[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
