"""What several workers of one host may use of one GPU's memory, told to each other by files."""

import fcntl
import json
import os
import tempfile
from pathlib import Path
from typing import IO, Any

from weir_core.errors import InvalidField

_FOLDER = f"tokenweir-devices-{os.getuid()}"
_ALL = 1.0 + 1e-9
# A claim lasts as long as its file is open: it must not be collected.
_held: "set[DeviceClaim]" = set()


class DeviceClaim:
    """A part of a device that this process has claimed, until it is released or the process ends.

    Each claim is a file that its process holds locked; the kernel lets go of the lock when the
    process ends, however it ends, and the next to claim removes the file.
    """

    def __init__(self, file: IO[str], path: Path) -> None:
        self._file = file
        self._path = path

    def release(self) -> None:
        """Give the part back; twice is once."""
        _held.discard(self)
        if not self._file.closed:
            self._path.unlink(missing_ok=True)
            self._file.close()


def claim_device(device: str, model: str, share: float, folder: Path | None = None) -> DeviceClaim:
    """Claim a part of a device.

    Args:
        device: stable id, such as a GPU's UUID.
        model: for the message that another worker may print.
        share: above 0 to 1.
        folder: of the claims; None: one of this user's in the temporary folder.

    Raises:
        InvalidField: with the parts of other live workers it would be more than the whole; it
            names them.
    """
    folder = folder or Path(tempfile.gettempdir()) / _FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        others = _live_claims(folder, device)
        if sum(other["share"] for other in others) + share > _ALL:
            raise InvalidField("device_memory_share", share, _bound(device, model, others))
        return _write(folder, {"device": device, "model": model, "share": share})


def _bound(device: str, model: str, others: list[dict[str, Any]]) -> str:
    listed = ", ".join(f"{other['share']:g} of {other['model']!r}" for other in others)
    left = max(0.0, 1.0 - sum(other["share"] for other in others))
    return (
        f"at most {left:g} for {model!r}, since other workers on {device} have {listed}; lower "
        "one of them"
    )


def _live_claims(folder: Path, device: str) -> list[dict[str, Any]]:
    claims = []
    for path in sorted(folder.glob("*.claim")):
        with path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                claims.append(json.load(file))
            else:
                # Nobody holds it: its process has ended.
                path.unlink(missing_ok=True)
    return [claim for claim in claims if claim["device"] == device]


def _write(folder: Path, claim: dict[str, Any]) -> DeviceClaim:
    descriptor, name = tempfile.mkstemp(dir=folder, prefix=f"{os.getpid()}-", suffix=".claim")
    file = os.fdopen(descriptor, "w")
    # Forked children would keep the lock after this process has ended.
    os.set_inheritable(descriptor, False)
    fcntl.flock(file, fcntl.LOCK_EX)
    json.dump(claim, file)
    file.flush()
    made = DeviceClaim(file, Path(name))
    _held.add(made)
    return made
