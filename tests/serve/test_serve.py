"""The server: answers, forms, statuses, limits, signals. Loopback only."""

import asyncio
import io
import json
import signal
import socket
import threading
import time
import zlib
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from anydepth.deploy.input_files import array_inputs
from anydepth.deploy.predict import entries_of
from anydepth.deploy.predictor import open_predictor
from anydepth.deploy.sweeps.sweep import sweep
from anydepth.runs.folder import open_run
from anydepth.serve.bodies import Limits
from anydepth.serve.listen import bound
from anydepth.serve.served_forms import served
from anydepth.train.training import train
from command import assert_refused, run_command
from processes import command
from serving import ask, send_raw, serving
from small_runs import tiny, tiny_tagger, write_treebank

LIMITS = Limits(body_bytes=100_000, pixels=10_000, examples=8, body_seconds=0.5, answer_seconds=10)
PIXELS = np.random.default_rng(0).integers(0, 17, (5, 1, 8, 8)).astype(np.float64)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve") / "tiny"
    train(tiny("model.options.steps=4"), folder)
    sweep(folder, steps=[4, 1], schemes=["midpoint", "euler"], rounds=1)
    return folder


@pytest.fixture(scope="module")
def forms(run):
    return served(open_run(run), max_drop=1000)


@pytest.fixture(scope="module")
def port(forms):
    with serving(forms, limits=LIMITS) as (at, *_):
        yield at


def expected(run, pixels):
    """What `anydepth predict` says."""
    predictor = open_predictor(run)
    inputs = array_inputs("these", pixels, predictor.facts)
    return entries_of(predictor((inputs,)), predictor.facts.labels, 1)


def assert_same(found, wanted):
    assert [entry["label"] for entry in found] == [entry["label"] for entry in wanted]
    assert [entry["probability"] for entry in found] == pytest.approx([e["probability"] for e in wanted], abs=1e-5)


def png(size=(8, 8), content=None):
    to = io.BytesIO()
    (Image.new("L", size, 9) if content is None else Image.fromarray(content)).save(to, "PNG")
    return to.getvalue()


def test_full_depth_answers_as_predict_does(run, port):
    reply = ask(port, "POST", "/predict?form=midpoint-4", {"inputs": PIXELS.tolist()})
    assert reply.status == 200
    assert reply.json["form"] == "midpoint-4"
    assert reply.json["validation_accuracy"] == pytest.approx(served(open_run(run)).sweep.source.value, abs=1e-4)
    assert_same(reply.json["predictions"], expected(run, PIXELS))


def test_an_image_is_what_its_pixels_are(run, port):
    reply = ask(port, "POST", "/predict?form=midpoint-4", png(content=PIXELS[0, 0].astype(np.uint8)), "image/png")
    assert_same(reply.json["predictions"], expected(run, PIXELS[:1]))
    fitted = ask(port, "POST", "/predict?resize=1", png((20, 30)), "image/png")
    assert fitted.status == 200


def test_the_ladder_begins_with_the_source_and_gets_cheaper(forms, port):
    model = ask(port, "GET", "/model").json
    assert [form["form"] for form in model["forms"]] == [form.name for form in forms.forms]
    assert model["forms"][0]["is_source"]
    costs = [max(form["example_ms"] * 16 + form["pass_ms"], form["least_ms"]) for form in model["forms"]]
    assert costs == sorted(costs, reverse=True)
    assert ask(port, "GET", "/healthz").json == {"status": "ok"}


def test_every_form_may_be_asked_for_and_says_who_it_is(forms, port):
    for form in forms.forms:
        reply = ask(port, "POST", f"/predict?form={form.name}&top=3", {"inputs": PIXELS[:1].tolist()}).json
        assert reply["form"] == form.name
        assert reply["validation_accuracy"] == pytest.approx(form.row.value, abs=1e-4)
        assert len(reply["predictions"][0]["top"]) == 3


def bomb():
    """The header of a PNG of 60,000 x 60,000 pixels."""
    content = bytearray(png())
    content[16:24] = (60_000).to_bytes(4, "big") * 2
    content[29:33] = zlib.crc32(content[12:29]).to_bytes(4, "big")
    return bytes(content)


DEEP = b'{"inputs": ' + b"[" * 20_000
BAD = {
    "no json": (400, b"{", "application/json", "no JSON"),
    "deep": (400, DEEP, "application/json", "no JSON"),
    "NaN": (400, b'{"inputs": [NaN]}', "application/json", "NaN is not allowed"),
    "infinite": (400, b'{"inputs": [[[1e999]]]}', "application/json", "body"),
    "other keys": (400, b'{"input": []}', "application/json", "one key"),
    "ragged": (400, b'{"inputs": [[1], [1, 2]]}', "application/json", "same length"),
    "words": (400, b'{"inputs": ["a"]}', "application/json", "lists of numbers"),
    "nothing": (400, b'{"inputs": []}', "application/json", "at least one"),
    "null": (400, b'{"inputs": [[null]]}', "application/json", "lists of numbers"),
    "shape": (400, b'{"inputs": [[1, 2]]}', "application/json", "expected (count, 1, 8, 8)"),
    "too large numbers": (
        400,
        json.dumps({"inputs": np.full((1, 1, 8, 8), 1e300).tolist()}).encode(),
        "application/json",
        "too large for float32",
    ),
    "too many": (
        413,
        json.dumps({"inputs": np.zeros((9, 1, 8, 8)).tolist()}).encode(),
        "application/json",
        "more than 8",
    ),
    "huge": (413, b" " * 200_000, "application/json", "more than 100,000 bytes"),
    "truncated": (400, png()[:50], "image/png", "cannot be read as an image"),
    "other size": (400, png((9, 9)), "image/png", "9 x 9"),
    "bomb": (400, bomb(), "image/png", "pixels"),
    "not its type": (400, b"GIF89a", "image/jpeg", "begin like image/jpeg"),
    "other type": (415, b"x", "text/plain", "expected application/json"),
    "no type": (415, b"x", None, "missing"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_requests_are_told_what_is_wrong(port, name):
    status, body, kind, says = BAD[name]
    reply = ask(port, "POST", "/predict", body, kind)
    assert reply.status == status
    assert says in reply.json["error"]
    assert "\n" not in reply.json["error"]


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/", 404), ("GET", "/predict", 405), ("PUT", "/model", 405)]
)
def test_wrong_paths_and_methods_are_told_the_right_ones(port, method, path, status):
    reply = ask(port, method, path)
    assert reply.status == status
    assert "POST /predict" in reply.json["error"]


def test_an_image_of_another_size_is_told_how_it_can_be_fitted(port):
    assert "?resize=1" in ask(port, "POST", "/predict", png((9, 9)), "image/png").json["error"]


@pytest.mark.parametrize("query", ["form=rk9", "top=0", "top=x", "top=000000001" + "0" * 5000, "resize=2", "depth=3"])
def test_bad_parameters_are_refused(port, query):
    reply = ask(port, "POST", f"/predict?{query}", {"inputs": PIXELS.tolist()})
    assert reply.status == 400
    assert "expected" in reply.json["error"] or "must be" in reply.json["error"]


def test_finite_inputs_whose_outputs_are_not_finite_harm_nobody_else(run, port):
    reply = ask(port, "POST", "/predict", {"inputs": np.full((1, 1, 8, 8), 3e38).tolist()})
    assert reply.status in (200, 422)
    assert ask(port, "POST", "/predict", {"inputs": PIXELS.tolist()}).status == 200


def test_slow_bodies_and_closed_connections_are_let_go(port):
    head = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"
    assert b" 408 " in send_raw(port, head + b"{").splitlines()[0]
    send_raw(port, head + b"{", is_read=False)
    assert ask(port, "POST", "/predict", {"inputs": PIXELS.tolist()}).status == 200


def test_a_server_that_runs_no_passes_is_not_healthy(forms):
    with serving(forms, limits=LIMITS) as (at, worker, _):
        worker.stop()
        assert ask(at, "GET", "/healthz").status == 503
        reply = ask(at, "POST", "/predict", {"inputs": PIXELS.tolist()})
        assert reply.status == 503
        assert reply.headers["Retry-After"] == "1"


def test_metrics_count_what_happened(forms):
    with serving(forms, limits=LIMITS) as (at, *_):
        for body in ({"inputs": PIXELS.tolist()}, {"no": 1}):
            ask(at, "POST", "/predict", body)
        text = ask(at, "GET", "/metrics").body.decode()
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert lines['anydepth_requests_total{code="200"}'] == lines['anydepth_requests_total{code="400"}'] == "1"
    assert lines['anydepth_examples_total{form="midpoint-4"}'] == "5"
    assert lines['anydepth_request_seconds_bucket{le="+Inf"}'] == lines["anydepth_request_seconds_count"] == "1"


def test_beyond_the_cheapest_form_clients_are_told_when_to_come_back(forms):
    """A pass is held up, so that what comes meanwhile would be late."""
    with serving(forms, p99_ms=2, limits=LIMITS) as (at, worker, _), held(worker) as let_go:
        asked, replies = clients(at, 40)
        wait_until(lambda: any(reply.status == 503 for reply in replies))
        let_go()
        for thread in asked:
            thread.join()
    assert {reply.status for reply in replies} == {200, 503}
    refused = [reply for reply in replies if reply.status == 503]
    assert all(int(reply.headers["Retry-After"]) >= 1 for reply in refused)


def test_a_server_that_ends_answers_what_it_accepted(forms):
    with serving(forms, limits=LIMITS) as (at, worker, server), held(worker) as let_go:
        asked, replies = clients(at, 8)
        wait_until(lambda: worker.load()["waiting"] + 5 >= 8 and not replies)
        wait_until(lambda: len(server.server_state.tasks) >= 8)
        server.handle_exit(signal.SIGTERM, None)
        time.sleep(0.2)
        let_go()
        for thread in asked:
            thread.join()
    assert [reply.status for reply in replies] == [200] * 8
    assert server.stopped_by == signal.SIGTERM


def clients(port, count):
    """So many at once, and where their replies will be."""
    replies: list = []
    body = {"inputs": PIXELS.tolist()}
    asked = [threading.Thread(target=lambda: replies.append(ask(port, "POST", "/predict", body))) for _ in range(count)]
    for thread in asked:
        thread.start()
    return asked, replies


def wait_until(is_so, seconds=20):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@contextmanager
def held(worker):
    """Passes wait until the function that is yielded is called."""
    hold = threading.Event()
    for name, form in worker.forms.items():
        worker.forms[name] = replace(form, predictor=_Held(form.predictor, hold))
    try:
        yield hold.set
    finally:
        hold.set()


def chances(predictions):
    return {ranked["label"]: ranked["probability"] for ranked in predictions[0]["top"]}


class _Held:
    def __init__(self, predictor, hold):
        self.facts, self.dtype, self._predictor, self._hold = predictor.facts, predictor.dtype, predictor, hold

    def __call__(self, inputs):
        assert self._hold.wait(20)
        return self._predictor(inputs)


def test_a_change_of_form_does_not_disturb_passes(forms):
    """Every answer is that of the form it names, whatever other requests ask for at the same time."""
    names = [form.name for form in forms.forms]
    with serving(forms, limits=LIMITS) as (at, *_):
        alone = {
            name: ask(at, "POST", f"/predict?form={name}&top=10", {"inputs": PIXELS[:1].tolist()}).json["predictions"]
            for name in names
        }
        wrong = []

        def client(number):
            for turn in range(6):
                name = names[(number + turn) % len(names)]
                reply = ask(at, "POST", f"/predict?form={name}&top=10", {"inputs": PIXELS[:1].tolist()}).json
                chances = [
                    {e["label"]: e["probability"] for e in x[0]["top"]} for x in (reply["predictions"], alone[name])
                ]
                if reply["form"] != name or chances[0] != pytest.approx(chances[1], abs=2e-5):
                    wrong.append(reply)

        clients = [threading.Thread(target=client, args=(number,)) for number in range(6)]
        for thread in clients:
            thread.start()
        for thread in clients:
            thread.join()
    assert not wrong


def test_text_is_tagged(tmp_path):
    data = write_treebank(tmp_path / "data")
    config = tiny_tagger(f"data.options={json.dumps({'folder': str(data)})}")
    folder = tmp_path / "tagger"
    train(config, folder, tmp_path)
    found = served(open_run(folder), tmp_path, is_fixed=True)
    with serving(found, limits=LIMITS) as (at, *_):
        reply = ask(at, "POST", "/predict", b"1a 2b. 3c", "text/plain; charset=utf-8")
        assert [len(entry["words"]) for entry in reply.json["predictions"]] == [3, 1]
        assert ask(at, "POST", "/predict", b"\xff\xfe\xfa", "text/plain").status == 400
        assert ask(at, "POST", "/predict", b"  ", "text/plain").status == 400
        assert ask(at, "POST", "/predict", {"inputs": [1]}).status == 415


@pytest.mark.slow
def test_sigterm_answers_what_was_accepted(run, tmp_path):
    """The same with the command in a process of its own."""
    process = command(tmp_path / "told", "serve", run, "--port", "0", "--json", "--p99-ms", "5000", "--batch-ms", "300")
    said = process.told[0]
    deadline = time.monotonic() + 60
    while not (said.exists() and said.read_text().rstrip().endswith("}")):
        assert process.poll() is None, process.told[1].read_text()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    port = int(json.loads(said.read_text())["address"].rpartition(":")[2])
    asked, replies = clients(port, 8)
    while b"anydepth_waiting_requests 8" not in ask(port, "GET", "/metrics").body:
        if len(replies) == 8:
            break
    process.send_signal(signal.SIGTERM)
    for thread in asked:
        thread.join()
    assert [reply.status for reply in replies] == [200] * 8
    process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGTERM


def test_the_command_says_what_is_wrong(tmp_path, capsys, run):
    assert_refused(run_command(capsys, "serve", tmp_path / "none"), 4)
    with torch.inference_mode():
        assert run_command(capsys, "serve", run, "--p99-ms", "0").code == 2
    assert_refused(run_command(capsys, "serve", run, "--host", "no.such.host.invalid"), 6, "cannot listen")


def test_answers_are_not_held_back_until_clients_acknowledge():
    """Without TCP_NODELAY every answer waits about 40 ms for the client."""

    async def is_sent_at_once():
        found = asyncio.get_running_loop().create_future()

        async def answer(_reader, writer):
            found.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with bound("127.0.0.1", 0) as at:
            async with await asyncio.start_server(answer, sock=at):
                with socket.create_connection(at.getsockname()):
                    return await asyncio.wait_for(found, 5)

    assert asyncio.run(is_sent_at_once())
