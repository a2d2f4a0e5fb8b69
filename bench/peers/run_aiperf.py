"""AIPerf, NVIDIA's load generator, on a load that was written down beforehand.

Its command line is run in its own environment; nothing of it is imported here.
"""

import asyncio
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers.home import environment, is_installed
from bench.peers.peer_process import PeerFailed
from weir_cli.load.load_request import LoadRequest
from weir_cli.load.prompts import Prompts

NAME = "aiperf"
_START_S = 240.0
_GRACE_S = 60.0
_SETTINGS = {
    # A tokenizer in a folder needs no hub; AIPerf's offline mode does not read folders.
    "HF_ENDPOINT": "http://127.0.0.1:9",
    # Its dozen processes start slowly on two cores.
    "AIPERF_SERVICE_REGISTRATION_TIMEOUT": "240",
    "AIPERF_SERVICE_COMMAND_RESPONSE_TIMEOUT": "240",
    "NO_COLOR": "1",
    "COLUMNS": "200",
}


@dataclass(frozen=True, slots=True)
class Door:
    """The server that is measured.

    Attributes:
        url: of its HTTP door.
        key: API key.
        model: public name.
        tokenizer: the model's folder.
    """

    url: str
    key: str
    model: str
    tokenizer: Path


@dataclass(frozen=True, slots=True)
class Told:
    """What the client reports.

    Attributes:
        ttft_s: mean time to the first token.
        output_tokens_s: output tokens a second.
        requests: that were answered.
    """

    ttft_s: float
    output_tokens_s: float
    requests: int


def write_load(path: Path, load: Sequence[LoadRequest], prompts: Prompts) -> None:
    """The load as a trace in AIPerf's form: texts, moments in milliseconds, lengths."""
    lines = [
        json.dumps(
            {
                "timestamp": round(one.at_s * 1000),
                "text_input": prompts.make(one.prompt_tokens, one.index),
                "output_length": one.output_tokens,
            }
        )
        for one in load
    ]
    path.write_text("".join(f"{line}\n" for line in lines))


async def run_aiperf(door: Door, trace: Path, seconds: float, folder: Path) -> Told:
    """Runs one load. Raises PeerFailed."""
    if not is_installed(NAME):
        raise PeerFailed(f"{NAME} is not installed; `make peers ARGS={NAME}` does")
    artifacts = folder / "artifacts"
    command = [str(environment(NAME) / "bin" / "aiperf"), "profile"]
    command += ["--model", door.model, "--url", door.url, "--api-key", door.key]
    command += ["--endpoint-type", "completions", "--streaming", "--use-legacy-max-tokens"]
    command += ["--tokenizer", str(door.tokenizer), "--use-server-token-count"]
    command += ["--extra-inputs", json.dumps({"ignore_eos": True, "temperature": 0})]
    command += ["--input-file", str(trace), "--custom-dataset-type", "mooncake_trace"]
    command += ["--fixed-schedule", "--ui", "none", "--output-artifact-dir", str(artifacts)]
    await _run(command, folder / f"{NAME}.log", _START_S + seconds + _GRACE_S)
    return _told(artifacts, folder)


async def _run(command: Sequence[str], log: Path, limit_s: float) -> None:
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=os.environ | _SETTINGS,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            # A group of its own: it has processes, which must end with it.
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(limit_s):
                code = await process.wait()
        except TimeoutError:
            raise PeerFailed(f"{NAME} did not end within {limit_s:.0f} s; see {log}") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            await process.wait()
    if code:
        lines = log.read_text(errors="replace").strip().splitlines() or ["no output"]
        wrong = [line for line in lines if " ERROR " in line]
        raise PeerFailed(f"{NAME} ended with {code}: {(wrong or lines[-1:])[0][:300]}")


def _told(artifacts: Path, folder: Path) -> Told:
    """Raises PeerFailed for a report that lacks a figure."""
    reports = sorted(artifacts.rglob("profile_export_aiperf.json"))
    if not reports:
        raise PeerFailed(f"{NAME} wrote no report into {folder}")
    report: dict[str, Any] = json.loads(reports[-1].read_text())
    try:
        return Told(
            ttft_s=float(report["time_to_first_token"]["avg"]) / 1000,
            output_tokens_s=float(report["output_token_throughput"]["avg"]),
            requests=int(report["request_count"]["avg"]),
        )
    except (KeyError, TypeError) as error:
        raise PeerFailed(f"{NAME}'s report has no {error}; it has {sorted(report)}") from None
