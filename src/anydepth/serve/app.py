"""The HTTP side: routes, limits and statuses."""

import asyncio
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import ceil
from time import monotonic

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from anydepth.deploy.sweeps.result import FormRow
from anydepth.errors import printable
from anydepth.serve.bodies import JSON, Asked, Limits, RequestError, kinds_for, read_body
from anydepth.serve.gauges import CONTENT_TYPE, Gauges
from anydepth.serve.served_forms import Served
from anydepth.serve.worker import RefusedError, Worker

_SMALL = 32_768
"""Bytes of JSON that are read without a thread of their own."""
_PATHS = "POST /predict, GET /model, GET /healthz and GET /metrics"
_NOBODY = 499
"""Counted for clients that went away before their request was complete."""


class Endpoints:
    """What the routes call; `top` and the like come as query parameters."""

    def __init__(self, served: Served, worker: Worker, gauges: Gauges, limits: Limits):
        self.served, self.worker, self.gauges, self.limits = served, worker, gauges, limits
        self._decoding = threading.Lock()
        self._at_once = 0

    async def predict(self, request: Request) -> Response:
        began = monotonic()
        self._at_once += 1
        try:
            response = await self._predict(request)
        except RequestError as error:
            response = JSONResponse({"error": str(error)}, error.status)
        except RefusedError as error:
            response = _come_back(error.seconds)
        except ClientDisconnect:
            response = Response(status_code=_NOBODY)
        finally:
            self._at_once -= 1
        self.gauges.answered(response.status_code, monotonic() - began)
        return response

    async def _predict(self, request: Request) -> Response:
        if self._at_once > self.limits.at_once:
            raise RefusedError(1.0)
        form, top, resize = self._options(request)
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                content = await self._content(request)
        except TimeoutError:
            raise RequestError(408, f"the body took longer than {self.limits.body_seconds:g} s") from None
        kind = request.headers.get("content-type", "")
        if kind.startswith(JSON) and len(content) < _SMALL:
            asked = self._read(content, kind, resize)
        else:
            asked = await run_in_threadpool(self._read_alone, content, kind, resize)
        future = asyncio.wrap_future(self.worker.submit(asked, form, top))
        try:
            async with asyncio.timeout(self.limits.answer_seconds):
                found = await future
        except TimeoutError:
            raise RefusedError(self.limits.answer_seconds) from None
        return JSONResponse({"predictions": found.entries, "form": found.form.name} | self._told(found.form.row))

    def _options(self, request: Request) -> tuple[str | None, int, bool]:
        given = request.query_params
        unknown = set(given) - {"form", "top", "resize"}
        if unknown:
            raise RequestError(400, f"unknown parameter {min(unknown)!r:.60}; expected form, top or resize")
        form, top, resize = given.get("form"), given.get("top", "1"), given.get("resize", "0")
        if form is not None and form not in self.worker.forms:
            raise RequestError(400, f"unknown form {form!r:.60}; expected one of {', '.join(self.worker.forms)}")
        if not re.fullmatch("[1-9][0-9]{0,6}", top, re.ASCII):
            raise RequestError(400, f"top must be a whole number from 1 to 9999999, got {top!r:.60}")
        if resize not in ("0", "1"):
            raise RequestError(400, f"resize must be 0 or 1, got {resize!r:.60}")
        return form, int(top), resize == "1"

    async def _content(self, request: Request) -> bytes:
        """The body, as long as it is short enough."""
        most, found = self.limits.body_bytes, bytearray()
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length[:18]) > most:
            raise RequestError(413, f"the body has more than {most:,} bytes; send fewer examples")
        async for chunk in request.stream():
            found += chunk
            if len(found) > most:
                raise RequestError(413, f"the body has more than {most:,} bytes; send fewer examples")
        return bytes(found)

    def _read(self, content: bytes, kind: str, resize: bool) -> Asked:
        with np.errstate(all="ignore"):
            return read_body(content, kind, self.served.forms[0].predictor, self.limits, resize)

    def _read_alone(self, content: bytes, kind: str, resize: bool) -> Asked:
        """Large bodies and images one after another, which bounds memory and time."""
        with self._decoding:
            return self._read(content, kind, resize)

    def _told(self, row: FormRow) -> dict[str, object]:
        return {self.served.told_as: None if row.value is None else round(row.value, 4)}

    async def model(self, _request: Request) -> Response:
        facts, forms = self.served.facts, self.served.forms
        return JSONResponse(
            {
                "run": printable(self.served.run.folder.resolve().name),
                "task": facts.task,
                "kind": facts.kind,
                "shape": facts.shape,
                "labels": facts.labels,
                "content_types": kinds_for(forms[0].predictor),
                "p99_ms": round(1000 * self.worker.controller.target, 3),
                "form": self.worker.controller.form,
                "forms": [
                    {"form": form.name, "is_source": form.row.is_source, "nfe": form.row.nfe}
                    | self._told(form.row)
                    | {name: round(getattr(form.rung, name), 4) for name in ("example_ms", "pass_ms", "least_ms")}
                    for form in forms
                ],
                "limits": {
                    "body_bytes": self.limits.body_bytes,
                    "pixels": self.limits.pixels,
                    "examples": self.limits.examples,
                },
            }
        )

    async def healthz(self, _request: Request) -> Response:
        if self.worker.is_running():
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "no passes are run any more"}, 503)

    async def metrics(self, _request: Request) -> Response:
        text = self.gauges.text(self.worker.load(), self.worker.controller.form)
        return PlainTextResponse(text, media_type=CONTENT_TYPE)


async def _no_such(request: Request, error: Exception) -> Response:
    """Paths and methods that there are not."""
    assert isinstance(error, HTTPException)
    told = f"{request.method:.20} {request.url.path:.100} is not here; there are {_PATHS}"
    return JSONResponse({"error": told}, error.status_code, error.headers)


def _come_back(seconds: float) -> Response:
    told = {"error": "overloaded, even for the cheapest form; try again later"}
    return JSONResponse(told, 503, {"Retry-After": str(max(1, ceil(seconds)))})


def app_of(served: Served, worker: Worker, gauges: Gauges, limits: Limits) -> Starlette:
    """The application; when it is shut down, the worker answers what was accepted."""
    ends = Endpoints(served, worker, gauges, limits)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(worker.stop)

    routes = [
        Route("/predict", ends.predict, methods=["POST"]),
        Route("/model", ends.model),
        Route("/healthz", ends.healthz),
        Route("/metrics", ends.metrics),
    ]
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _no_such})
