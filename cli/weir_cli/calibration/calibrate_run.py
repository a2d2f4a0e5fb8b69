"""Runs what `weir calibrate` asks for, and writes it down."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from weir.scheduler.v1.scheduler_service_pb2 import WorkerView
from weir_cli.calibration.campaign import Campaign, CampaignResult
from weir_cli.calibration.findings import facts_of
from weir_cli.calibration.journal import Journal
from weir_cli.calibration.meter import Meter, ids_of
from weir_cli.calibration.numbers import numbers_of
from weir_cli.calibration.options import CalibrationOptions
from weir_cli.calibration.own_site import open_own_site
from weir_cli.calibration.plan import CalibrationPlan, Cell
from weir_cli.calibration.plots import draw_calibration
from weir_cli.calibration.prediction import figures_of
from weir_cli.calibration.profile_store import StoredProfile, store
from weir_cli.calibration.progress import CalibrationProgress
from weir_cli.calibration.recorder import Recorder
from weir_cli.calibration.running_site import open_running_site
from weir_cli.calibration.site import Caller, Site, workers_of
from weir_cli.calibration.summary import summary_text
from weir_cli.errors import CommandError
from weir_cli.load.saved_report import page
from weir_cli.stack.running import scheduler_door
from weir_sim.report.canvas import PlotsUnavailable

_WARM_UPS = 4


@dataclass(frozen=True)
class Calibrated:
    """A calibration that has ended.

    Attributes:
        text: for a person.
        numbers: for a program.
        profile: the stored file.
    """

    text: str
    numbers: dict[str, Any]
    profile: Path


def calibrate_now(options: CalibrationOptions, *, quiet: bool = False) -> Calibrated:
    """Measures what is not yet measured, and writes everything. Raises CommandError."""
    return asyncio.run(calibrate(options, quiet=quiet))


async def calibrate(options: CalibrationOptions, *, quiet: bool = False) -> Calibrated:
    """As `calibrate_now`, in a loop that runs already."""
    plan = options.plan()
    journal = _journal_path(options)
    with CalibrationProgress(plan.seconds, quiet=quiet) as progress:
        result, model = await _measure(options, plan, journal, progress)
    return _written(options, result, model)


async def _measure(
    options: CalibrationOptions, plan: CalibrationPlan, path: Path, progress: CalibrationProgress
) -> tuple[CampaignResult, str]:
    async with _site(options, progress) as site:
        _check_alone(await workers_of(site.door, site.caller.model))
        worker = facts_of(site.worker)
        _check_fits(plan, worker.max_context)
        facts = options.facts() | {"profile": worker.profile, "model_name": site.caller.model}
        journal = Journal(path, facts)
        if journal.measured:
            progress.say(f"going on after {len(journal.measured)} measurements of {path}")
        meter = Meter(site, await ids_of(site.caller))
        await meter.closed("warm-up", Cell("", *_shortest(plan)), 2, requests=_WARM_UPS)
        targets = options.targets if options.targets.given else None
        recorder = Recorder(site, journal, meter, progress)
        campaign = Campaign(worker, plan, targets, recorder)
        return await campaign.run(), site.caller.model


@asynccontextmanager
async def _site(options: CalibrationOptions, progress: CalibrationProgress) -> AsyncIterator[Site]:
    if not options.url:
        with _empty(options.out / "stack") as folder:
            opened = open_own_site(options.model, options.null, folder, progress.say)
            async with opened as own:
                yield own
        return
    if not options.key or not options.served:
        raise CommandError(
            "--url needs the key of a tenant without limits (--key or WEIR_API_KEY) and the "
            "model's name (--served-model)"
        )
    caller = Caller(options.url, options.key, options.served)
    door = scheduler_door(options.address, options.state_dir)
    async with open_running_site(caller, door, options.directory, options.out) as running:
        yield running


@contextmanager
def _empty(folder: Path) -> Iterator[Path]:
    """A folder that is empty now, whatever a killed run has left, and gone afterwards."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(parents=True)
        yield folder.resolve()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _journal_path(options: CalibrationOptions) -> Path:
    path = options.out / "journal.jsonl"
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        if options.fresh:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise CommandError(f"--out {options.out}: {error.strerror}") from None
    return path


def _check_alone(views: Sequence[WorkerView]) -> None:
    if len(views) > 1:
        raise CommandError(
            f"{len(views)} workers serve the model; values are of one worker: drain the others "
            "(weir workers drain) while it is calibrated"
        )


def _check_fits(plan: CalibrationPlan, max_context: int) -> None:
    longest = plan.inputs[1] + plan.outputs[1]
    if longest > max_context:
        raise CommandError(
            f"--input-len and --output-len make requests of {longest} tokens; the worker's "
            f"context is {max_context}"
        )


def _shortest(plan: CalibrationPlan) -> tuple[int, int]:
    return plan.inputs[0], plan.outputs[0]


def _written(options: CalibrationOptions, result: CampaignResult, model: str) -> Calibrated:
    """Report and profile on the disk. Raises CommandError."""
    figures = figures_of(result.predicted)
    text = summary_text(result, model)
    numbers = numbers_of(result, model, figures)
    stored = StoredProfile(
        profile=result.worker.profile,
        model=model,
        chosen=result.kept,
        verdict=result.verdict.value,
        recommendation=result.recommendation,
        served=result.fit.served,
        targets=result.targets.given,
    )
    profile = store(options.home, stored)
    worker = {one.name: one.value for one in result.recommendation.worker}
    out = options.out
    try:
        (out / "calibration.json").write_text(json.dumps(numbers, indent=2) + "\n")
        (out / "agreement.json").write_text(json.dumps(figures) + "\n")
        (out / "summary.txt").write_text(text + "\n")
        (out / "profile.yaml").write_bytes(profile.read_bytes())
        (out / "worker.yaml").write_text(yaml.safe_dump(worker))
        plots = draw_calibration(result, out)
        title = f"Calibration of {model} on {result.worker.profile}"
        (out / "report.html").write_text(page(title, text, plots))
    except PlotsUnavailable as error:
        text += f"\n\nNo plots: {error}"
    except OSError as error:
        raise CommandError(f"--out {out} cannot be written: {error}") from None
    return Calibrated(text, numbers, profile)
