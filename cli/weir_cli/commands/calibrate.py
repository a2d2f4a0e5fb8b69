"""`weir calibrate`: what a worker can do, and the parameters that follow."""

import json
from pathlib import Path
from typing import Annotated

import typer

from weir_cli.errors import CommandError
from weir_cli.output import Output


def calibrate(
    minutes: Annotated[float, typer.Option(min=0.05, max=600, help="For everything, about.")] = 9.0,
    out: Annotated[
        Path, typer.Option(file_okay=False, help="Folder of the report; one begun is gone on with.")
    ] = Path("calibration"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin again.")] = False,
    input_len: Annotated[str, typer.Option(help="Tokens of short and long prompts.")] = "64,512",
    output_len: Annotated[str, typer.Option(help="Tokens of short and long answers.")] = "16,64",
    concurrency: Annotated[str, typer.Option(help="Requests at once, rising.")] = "1,2,4,8,16",
    goodput: Annotated[
        list[str] | None,
        typer.Option(
            help="Targets of a good answer, ms: ttft:2000, itl:100, e2e:9000. Default: four times "
            "what the long request takes alone."
        ),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(exists=True, help="Folder, in place of the default model.")
    ] = None,
    null: Annotated[
        bool, typer.Option("--null", help="The model that computes nothing; to see that it runs.")
    ] = False,
    url: Annotated[
        str, typer.Option(help="host:port of a running gateway's gRPC door; else one is started.")
    ] = "",
    key: Annotated[
        str, typer.Option(envvar="WEIR_API_KEY", show_default=False, help="For --url.")
    ] = "",
    served_model: Annotated[str, typer.Option(help="Its model's name there.")] = "",
    directory: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            resolve_path=True,
            help="Directory file of the stack at --url: changed while values are compared, and "
            "put back.",
        ),
    ] = None,
    state_dir: Annotated[
        Path | None, typer.Option(help="--state-dir of that `weir up`; default: the one that runs.")
    ] = None,
    address: Annotated[
        str, typer.Option(help="host:port of its scheduler; its secret in WEIR_CLUSTER_TOKEN.")
    ] = "",
    apply: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Measure nothing: put the values of --profile into this directory file.",
        ),
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Default: profile.yaml of --out."),
    ] = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="How to print.")] = Output.TEXT,
) -> None:
    """Measure a worker, recommend its parameters, and hold the simulator against it.

    Ctrl-C or a kill lose at most the measurement under way: the same command goes on.
    """
    # Here, so that no other command waits for numpy.
    from weir_cli.calibration.calibrate_run import calibrate_now
    from weir_cli.calibration.options import CalibrationOptions
    from weir_cli.load.goodput import parse_targets
    from weir_core.model_folder import models_home

    if apply is not None:
        _apply(apply, profile or out / "profile.yaml")
        return
    if null and model is not None:
        raise CommandError("--model and --null exclude each other; give one")
    options = CalibrationOptions(
        minutes=minutes,
        inputs=input_len,
        outputs=output_len,
        levels=concurrency,
        targets=parse_targets(goodput or ()),
        out=out,
        fresh=fresh,
        model=model,
        null=null,
        url=url,
        key=key,
        served=served_model,
        address=address,
        state_dir=state_dir,
        directory=directory,
        home=models_home().parent,
    )
    done = calibrate_now(options)
    if output is Output.JSON:
        print(json.dumps(done.numbers, indent=2))
        return
    print(done.text)
    print(f"\nreport {out}, values {done.profile}")
    print(f"to put them into a directory file: weir calibrate --out {out} --apply FILE")


def _apply(directory: Path, profile: Path) -> None:
    from weir_cli.calibration.directory_edit import put_settings
    from weir_cli.calibration.profile_store import read_profile

    name, model, chosen = read_profile(profile)
    put_settings(directory, model, name, chosen)
    print(f"{directory}: values of {name} for {model}; the old file is {directory}.bak")
