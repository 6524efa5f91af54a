"""One file for every number of steps."""

import json
from fractions import Fraction

import numpy as np
import pytest
import torch

import anydepth as ad
from anydepth.deploy.elastic.elastic_block import Cells
from anydepth.deploy.elastic.elastic_export import ElasticNet, export_elastic
from anydepth.deploy.elastic.steps_input import STEPS_PORT, with_steps
from anydepth.deploy.export.formats import format_of
from anydepth.deploy.export.ports import drawn
from anydepth.deploy.export.sheet import Elastic, read_export
from anydepth.depth.bases import BASES
from anydepth.depth.bases.families.linear import Linear
from anydepth.depth.times import Instant, Side
from anydepth.runs.folder import open_run
from anydepth.train.training import train
from command import assert_refused, run_command
from small_runs import tiny, tiny_tagger, write_treebank

SIZES = {"constant": (1, 3, 4), "linear": (1, 2, 5, 9), "discontinuous": (1, 6), "legendre": (1, 4), "bspline": (2, 7)}
UNEVEN = Linear.on_knots((Fraction(0), Fraction(1, 7), Fraction(2, 3), Fraction(1)))


def bases():
    return [BASES[name](size) for name in BASES.names() for size in SIZES.get(name, (4,))] + [UNEVEN]


@pytest.mark.parametrize("basis", bases(), ids=str)
def test_rows_are_those_of_the_basis(basis):
    """At every rational time that a step can read, on both sides of a knot."""
    cells = Cells(basis)
    for steps in (1, 2, 3, 5, 7, 8, 64):
        for side in (Side.LEFT, Side.RIGHT):
            tops = torch.arange(2 * steps + 1)
            support, factors = cells.at(tops, torch.tensor(2 * steps), side == Side.LEFT)
            for top in range(2 * steps + 1):
                row = np.zeros(basis.size)
                places = range(basis.size) if support is None else support[top].numpy()
                np.add.at(row, places, 1.0 if factors is None else factors[top].numpy())
                wanted = basis.evaluate([Instant(Fraction(top, 2 * steps), side)])[0]
                np.testing.assert_allclose(row, wanted, atol=1e-12)


@pytest.mark.parametrize("basis", BASES.names())
@pytest.mark.parametrize("scheme", ["euler", "rk4_38"])
def test_the_net_gives_what_the_model_gives(basis, scheme):
    """Before it is written: with norms kept in the logarithm, and one number of steps for each block."""
    torch.manual_seed(0)
    options = {"channels": [3, 4], "image": (1, 8, 8), "pool": 4, "basis": basis, "size": 4, "scheme": scheme}
    model = ad.models.ImageNetwork(**options, steps=2).double().eval()
    for _ in range(2):
        model.train()(torch.randn(6, 1, 8, 8, dtype=torch.float64))
    model.eval()
    net, x = ElasticNet(model).double(), torch.randn(3, 1, 8, 8, dtype=torch.float64)
    for first, second in ((1, 1), (3, 5), (8, 2)):
        ad.set_solver(model, steps={"blocks.0": first, "blocks.1": second})
        with torch.no_grad():
            found = net(torch.tensor([first, second]), x)
            torch.testing.assert_close(found, model(x), rtol=1e-10, atol=1e-10)


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    """A run, and its elastic file."""
    pytest.importorskip("onnxruntime")
    place = tmp_path_factory.mktemp("elastic")
    data = write_treebank(place / "data" / "treebank")
    config = tiny_tagger("model.options.scheme=midpoint", "model.options.basis=linear", "model.options.size=3")
    run = train(config, place / "run", data.parent)
    target = place / "net.onnx"
    export_elastic(run, target)
    return run, target


@pytest.mark.slow
def test_every_number_of_steps(tagger):
    run, target = tagger
    content, sheet = read_export(target)
    file = format_of(target).open(content, (STEPS_PORT, *sheet.inputs))
    model = run.model()
    inputs = drawn(run.facts, torch.float32, 5, seed=3)
    for steps in range(1, 65):
        ad.set_solver(model, steps=steps)
        with torch.no_grad():
            wanted = model(*inputs)[inputs[1]]
        found = with_steps(file, steps)(inputs)[inputs[1]]
        assert (found - wanted).abs().max() <= 1e-5 * max(1.0, float(wanted.abs().max()))


@pytest.mark.slow
def test_the_sheet_tells(tagger):
    _, target = tagger
    told = json.loads((target.parent / "net.onnx.json").read_text())
    assert told["elastic"]["least"] == 1
    assert told["elastic"]["most"] == 64
    assert told["elastic"]["scheme"] == "midpoint"
    assert told["parity"]["holds"]


@pytest.mark.parametrize(("least", "default", "most"), [(1, 0, 64), (1, 65, 64), (-1, 2, 64), (9, 9, 8)])
def test_a_sheet_with_impossible_steps_is_refused(least, default, most):
    with pytest.raises(ValueError, match="by default"):
        Elastic(scheme="euler", blocks=("a",), least=least, default=default, most=most)


@pytest.mark.slow
def test_predict_takes_steps(capsys, tagger, tmp_path):
    run, target = tagger
    text = tmp_path / "text.txt"
    text.write_text("1a 2b 3c .\n")
    for model in (target, run.folder):
        code, out, _ = run_command(capsys, "predict", str(model), str(text), "--steps", "3", "--json")
        assert code == 0
        assert json.loads(out)["predictions"]
    for steps in ("0", "65"):
        assert_refused(run_command(capsys, "predict", str(target), str(text), "--steps", steps), 2, "1 to 64 steps")


def test_impossible_files(capsys, tmp_path):
    run = train(tiny(), tmp_path / "run", None)
    refused = run_command(capsys, "export", str(run.folder), "--elastic", "--to", str(tmp_path / "a.pt2"))
    assert_refused(refused, 2, "an elastic file is ONNX")
    refused = run_command(
        capsys, "export", str(run.folder), "--elastic", "--to", str(tmp_path / "a.onnx"), "--steps", "65"
    )
    assert_refused(refused, 2, "1 to 64 steps, got 65")
    block = ad.ContinuousBlock(
        lambda: ad.units.PreactConv(4), steps=2, weights={"conv1.weight": ad.Evolved("linear"), "*": ("constant", 1)}
    )
    with pytest.raises(ad.ConfigError, match="cannot evaluate at any number of steps"):
        ElasticNet(torch.nn.Sequential(block))
    adaptive = ad.ContinuousBlock(lambda: ad.units.PreactConv(4), scheme="dopri54")
    with pytest.raises(ad.ConfigError, match="adaptive scheme"):
        ElasticNet(torch.nn.Sequential(adaptive))
    assert open_run(run.folder)
