"""`anydepth smooth`."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from anydepth.cli.output import Data, Json, RunFolder, bold, console, print_json, progress

if TYPE_CHECKING:
    from anydepth.deploy.smooth import SmoothReport


def register(app: typer.Typer) -> None:
    app.command("smooth")(smooth)


def smooth(
    run: RunFolder,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the new run.")],
    teacher: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Learn from another run's model; default: RUN's own.")
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training data.")] = 10,
    steps: Annotated[str | None, typer.Option(metavar="N,...", help="Step counts to train for.")] = None,
    sizes: Annotated[str | None, typer.Option(metavar="N,...", help="Sizes to train for.")] = None,
    penalty: Annotated[float, typer.Option(help="Factor on the differences of kernels over depth.")] = 3e-3,
    lr: Annotated[float, typer.Option(help="Peak learning rate.")] = 0.02,
    draws: Annotated[int, typer.Option(min=0, help="Forms drawn in every step.")] = 1,
    align: Annotated[bool, typer.Option(help="Align hidden units of neighbouring layers first.")] = True,
    seed: Annotated[int, typer.Option(min=0, help="Decides order, augmentation and drawn forms.")] = 0,
    data: Data = None,
    json: Json = False,
) -> None:
    """Fine-tune a trained run so that it keeps its accuracy at other depths and sizes. It learns from its own outputs.

    Without --steps and --sizes it is trained for half and a quarter of both. Every form is judged before and after, on
    the validation part, with batch statistics estimated anew. Stopped at any time, the same command resumes.

    \b
    Examples:
      anydepth smooth runs/resnet --out runs/resnet-smooth
      anydepth smooth runs/resnet --epochs 5 --steps 4,2 --out runs/resnet-smooth
    """
    from anydepth.deploy.smooth import smooth_run
    from anydepth.runs.folder import check_new, open_run, save_derived
    from anydepth.surgery.views import PartialForm
    from anydepth.train.smoothing import Smoothing
    from anydepth.train.smoothing_state import remove_state

    parent = open_run(run)
    check_new(out)
    asked = [PartialForm(steps=n) for n in _counts("--steps", steps)]
    asked += [PartialForm(size=n) for n in _counts("--sizes", sizes)]
    settings = Smoothing(epochs=epochs, penalty=penalty, draws=draws, lr=lr, seed=seed)
    goal = None if teacher is None else open_run(teacher).model()
    with progress() as report:
        model, found = smooth_run(parent, data, goal, tuple(asked) or None, settings, align, report, out)
    told = {"epochs": epochs, "penalty": penalty, "draws": draws, "lr": lr, "align": align, "seed": seed}
    told |= {"forms": [str(form) for form in asked]} if asked else {}
    save_derived(parent, out, model, {"operation": "smooth", **told})
    remove_state(out)
    _tell(run, out, found, json)


def _counts(option: str, given: str | None) -> list[int]:
    from anydepth.errors import ConfigError

    if given is None:
        return []
    words = [word.strip() for word in given.split(",")]
    if not all(re.fullmatch("0*[1-9][0-9]{0,8}", word, re.ASCII) for word in words):
        raise ConfigError(f"{option} takes whole numbers above 0 with commas between, such as 4,2, got {given!r:.60}")
    return [int(word) for word in words]


def _tell(run: Path, out: Path, found: "SmoothReport", json: bool) -> None:
    if json:
        print_json({"run": str(out), "parent": str(run), **found.describe()})
        return
    console.print(escape(str(found)))
    before, after = found.roughness
    console.print(f"relative change of kernels from layer to layer {before:.2f} -> {after:.2f}")
    console.print(f"run {bold(out)}; next: {escape(f'anydepth compress {out} --max-drop 1 --recalibrate --out DIR')}")
