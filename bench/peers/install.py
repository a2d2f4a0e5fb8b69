"""`make peers`: installs the engines and gateways that ours are measured beside.

Each gets an environment of its own under `$PEERS` (default ~/.cache/tokenweir/peers), once; an
interrupted installation is taken up again. One that fails costs the others nothing.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from bench.peers.catalogue import PEERS, Peer, names
from bench.peers.home import environment, interpreter, peers_home, stamp
from bench.peers.models import MODELS, ModelStep

_INSTALL_TIMEOUT_S = 3 * 3600.0
_STEP_TIMEOUT_S = 1800.0


class PeerError(Exception):
    """What failed, in one line."""


def main() -> int:
    """Install what is wanted; 1 if something failed."""
    parser = argparse.ArgumentParser(description="Install the peers of the benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names())}")
    wanted = parser.parse_args().names or names()
    if unknown := set(wanted) - set(names()):
        parser.error(f"no such peer: {', '.join(sorted(unknown))}; there are {', '.join(names())}")
    peers_home().mkdir(parents=True, exist_ok=True)
    failed = [peer.name for peer in PEERS if peer.name in wanted and not _attempt(peer)]
    failed += [step.name for step in MODELS if step.needs in wanted and not _attempt(step)]
    return 1 if failed else 0


def _attempt(wanted: Peer | ModelStep) -> bool:
    try:
        done = install(wanted) if isinstance(wanted, Peer) else prepare(wanted)
    except PeerError as error:
        _say(f"{wanted.name}: FAILED: {error}")
        return False
    _say(f"{wanted.name}: {done}")
    return True


def install(peer: Peer) -> str:
    """Make its environment unless it is there; returns what was done. Raises PeerError."""
    contents = "\n".join((*peer.requirements, *(f"-{name}" for name in peer.remove))) + "\n"
    if stamp(peer.name).is_file() and stamp(peer.name).read_text() == contents:
        return "is there"
    _say(f"{peer.name}: installing ({peer.note})")
    log = peers_home() / f"{peer.name}.log"
    python = str(interpreter(peer.name))
    if not interpreter(peer.name).is_file():
        _run([sys.executable, "-m", "venv", str(environment(peer.name))], log, _STEP_TIMEOUT_S)
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    _run([*pip, "install", "--quiet", *peer.requirements], log, _INSTALL_TIMEOUT_S)
    if peer.remove:
        _run([*pip, "uninstall", "--quiet", "--yes", *peer.remove], log, _STEP_TIMEOUT_S)
    _run([python, "-c", f"import {peer.imports}"], log, _STEP_TIMEOUT_S)
    stamp(peer.name).write_text(contents)
    return "installed"


def prepare(step: ModelStep) -> str:
    """Make one form of the model unless it is there; returns what was done. Raises PeerError."""
    if step.made.exists():
        return "is there"
    _say(f"{step.name}: preparing")
    log = peers_home() / f"{step.name}.log"
    step.made.parent.mkdir(parents=True, exist_ok=True)
    try:
        step.make(lambda command: _run(command, log, _STEP_TIMEOUT_S))
    except OSError as error:
        raise PeerError(f"{error.strerror}: {error.filename}") from None
    return "prepared"


def _run(command: list[str], log: Path, timeout_s: float) -> None:
    with log.open("ab") as output:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise PeerError(f"took longer than {timeout_s:.0f} s; see {log}") from None
        except OSError as error:
            raise PeerError(f"{command[0]}: {error.strerror}") from None
    if done.returncode:
        raise PeerError(f"{_last_error(log)}; see {log}")


def _last_error(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("ERROR", "error")) or "Error:" in line]
    return (errors or lines or ["no output"])[-1][:300]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
