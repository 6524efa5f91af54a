"""`anydepth serve`."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from anydepth.cli.output import Data, Json, RunFolder, bold, console, print_json, progress

if TYPE_CHECKING:
    from anydepth.serve.served_forms import Served


def register(app: typer.Typer) -> None:
    app.command("serve")(serve)


def serve(
    run: RunFolder,
    p99_ms: Annotated[float, typer.Option(min=0.1, help="Target: 99 of 100 answers take no longer.")] = 50.0,
    host: Annotated[
        str, typer.Option(help="Address to listen at; 0.0.0.0 is reachable from other machines.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0 takes any that is free.")] = 8080,
    max_drop: Annotated[
        float,
        typer.Option(min=0.0, metavar="X", help="Largest drop in accuracy of a form, in points below the run's own."),
    ] = 2.0,
    fixed: Annotated[bool, typer.Option("--fixed", help="Answer with the run's own form alone.")] = False,
    batch_ms: Annotated[float, typer.Option(min=0.0, help="How long to wait for requests that share a pass.")] = 2.0,
    max_batch: Annotated[int, typer.Option(min=1, help="Most examples in one request, and in one pass.")] = 64,
    max_megabytes: Annotated[float, typer.Option(min=0.001, help="Largest request body.")] = 4.0,
    max_megapixels: Annotated[float, typer.Option(min=0.001, help="Largest image.")] = 4.0,
    max_seconds: Annotated[
        float, typer.Option(min=0.1, help="Longest time for a body to arrive, and for its answer.")
    ] = 10.0,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of PyTorch; default: those of the sweep.")] = None,
    data: Data = None,
    json: Json = False,
) -> None:
    """Predictions over HTTP, at a depth that follows the load. Needs: pip install 'anydepth[serve]'.

    If the run's own form cannot answer all requests in time, cheaper forms of its sweep take over. Every answer names
    its form and that form's accuracy. The sweep is made if the run has none. POST /predict takes
    {"inputs": [...]}, a PNG or JPEG, or plain text, with ?form=, ?top= and ?resize=1; GET /model, /healthz, /metrics.
    A request gets 503 with Retry-After only if even the cheapest form would be late. On SIGTERM, accepted requests
    are still answered.

    \b
    Examples:
      anydepth serve runs/digits --p99-ms 50
      curl -H 'Content-Type: image/png' --data-binary @seven.png localhost:8080/predict
    """
    from anydepth.errors import ConfigError
    from anydepth.runs.folder import open_run

    try:
        from anydepth.serve.app import app_of
        from anydepth.serve.listen import bound, server_of
    except ModuleNotFoundError as error:
        raise ConfigError(f"serving needs {error.name}; pip install 'anydepth[serve]'") from None
    from anydepth.serve.bodies import Limits
    from anydepth.serve.gauges import Gauges
    from anydepth.serve.served_forms import served
    from anydepth.serve.worker import Worker

    limits = Limits(round(1e6 * max_megabytes), round(1e6 * max_megapixels), max_batch, max_seconds, max_seconds)
    with bound(host, port) as at:
        with progress(logs=not json) as report:
            found = served(open_run(run), data, max_drop, fixed, threads, report)
        gauges = Gauges()
        worker = Worker(found, p99_ms, max_batch, batch_ms / 1000, gauges)
        address = f"http://{host}:{at.getsockname()[1]}"

        def ready() -> None:
            if json:
                print_json({"run": str(run), "address": address, "forms": [f.name for f in found.forms]})
            else:
                _show(found, address, p99_ms)

        server = server_of(app_of(found, worker, gauges, limits), ready, max_seconds + 1)
        server.run(sockets=[at])
    raise typer.Exit(128 + server.stopped_by if server.stopped_by else 0)


def _show(found: "Served", address: str, p99_ms: float) -> None:
    console.print(f"{bold(address)}, 99 % within {p99_ms:g} ms; POST /predict, GET /model, /healthz, /metrics")
    for form in found.forms:
        value = "-" if form.row.value is None else f"{form.row.value:.2f}"
        told = f"{found.told_as.replace('_', ' ')} {value}, {form.rung.milliseconds(1):.3g} ms"
        console.print(f"  {escape(form.name)}: {escape(told)}{' (as it is)' if form.row.is_source else ''}")
    if found.sweep.note:
        console.print(escape(found.sweep.note), style="dim")
