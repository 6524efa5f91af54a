"""The continuous transformer: a stack of encoders is a special case, padding and bucketing change nothing."""

import io
import json
from copy import deepcopy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import layer_norm

import anydepth as ad
from anydepth.data.order import Draw, batches
from anydepth.data.sentences import Sentences
from anydepth.data.table import IGNORED, Augment
from anydepth.data.text import sentences_of
from anydepth.errors import ConfigError
from anydepth.measure.evaluation import evaluate, loss_of
from anydepth.train.training import train
from command import assert_refused, run_command
from small_runs import tiny, tiny_tagger, write_treebank


class Layer(nn.Module):
    """An encoder layer written out by hand: softmax attention, one head after the other."""

    def __init__(self, unit):
        super().__init__()
        self.heads = unit.heads
        self.weights = nn.ParameterDict({name.replace(".", "_"): deepcopy(p) for name, p in unit.named_parameters()})

    def forward(self, x, mask):
        w = self.weights
        normed = layer_norm(x, x.shape[-1:], w["norm1_weight"], w["norm1_bias"])
        found = []
        for q, k, v in zip(
            *((normed @ w[f"{name}_weight"].T).chunk(self.heads, dim=-1) for name in ("query", "key", "value")),
            strict=True,
        ):
            scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
            scores = scores.masked_fill(~mask[:, None, :], float("-inf"))
            found.append(scores.softmax(-1) @ v)
        attended = torch.cat(found, dim=-1) @ w["mix_weight"].T
        inner = layer_norm(x + attended, x.shape[-1:], w["norm2_weight"], w["norm2_bias"]) @ w["inner_weight"].T
        perceptron = torch.relu(inner + w["inner_bias"]) @ w["out_weight"].T + w["out_bias"]
        return x + attended + perceptron


def sentences(batch=3, longest=7, width=16):
    lengths = torch.tensor([longest, *torch.randint(1, longest, (batch - 1,)).tolist()])
    return torch.randn(batch, longest, width), torch.arange(longest) < lengths[:, None]


@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (4, 1), (6, 4)])
def test_euler_with_constants_is_a_stack_of_encoder_layers(layers, heads):
    units = [ad.units.Encoder(16, heads=heads) for _ in range(layers)]
    made = iter([deepcopy(unit) for unit in units])
    block = ad.ContinuousBlock(lambda: next(made), "constant", layers, scheme="euler", steps=layers, scale=layers)
    stack = nn.ModuleList(Layer(unit) for unit in units)
    x, mask = sentences()
    y = x
    for layer in stack:
        y = layer(y, mask)
    found = block(x, mask)
    torch.testing.assert_close(found, y, rtol=2e-5, atol=2e-5)
    direction = torch.randn_like(y)
    (y * direction).sum().backward()
    (found * direction).sum().backward()
    for name, parameter in block.unit.named_parameters():
        wanted = torch.stack([layer.weights[name.replace(".", "_")].grad for layer in stack])
        torch.testing.assert_close(parameter.grad, wanted, rtol=1e-4, atol=1e-4)


def test_parameters_per_basis_function():
    """Attention without bias, perceptron with, two layer norms: 99,072 at width 128."""
    sizes = [
        sum(p.numel() for p in ad.build("tagger", words=50, classes=5, width=128, size=k).parameters()) for k in (1, 2)
    ]
    assert sizes[1] - sizes[0] == 99_072


@pytest.mark.parametrize("scheme", ["euler", "rk4"])
def test_padding_changes_no_output_of_a_word(scheme):
    model = ad.build("tagger", words=30, classes=5, width=16, size=3, scheme=scheme, options={"heads": 2}).eval()
    tokens = torch.randint(1, 30, (2, 5))
    whole = model(tokens, torch.ones(2, 5, dtype=torch.bool))
    for junk in (0, 7):
        padded = torch.cat([tokens, torch.full((2, 4), junk)], dim=1)
        mask = torch.arange(9) < torch.full((2, 1), 5)
        torch.testing.assert_close(model(padded, mask)[:, :5], whole, rtol=1e-5, atol=1e-5)


def test_attention_is_what_the_unit_attends_with():
    unit, (x, mask) = ad.units.Encoder(16, heads=2), sentences()
    weights = unit.attention(x, mask)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 2, 7))
    assert not weights[~mask[:, None, None, :].expand_as(weights)].any()
    value = unit.value(unit.norm1(x)).unflatten(-1, (2, -1)).transpose(1, 2)
    attended = unit.mix((weights @ value).transpose(1, 2).flatten(2))
    expected = attended + unit.out(unit.inner(unit.norm2(x + attended)).relu())
    torch.testing.assert_close(unit(x, mask), expected, rtol=1e-5, atol=1e-5)


def made_text(count=40, seed=0):
    random = np.random.default_rng(seed)
    words = tuple(tuple(f"w{int(i)}" for i in random.zipf(1.6, random.integers(1, 12)) % 50) for _ in range(count))
    return Sentences(words, tuple(tuple("ABC"[int(word[1:]) % 3] for word in sentence) for sentence in words))


def test_bucketed_batches_have_the_same_loss_as_unbucketed_ones():
    table = made_text()
    facts = table.facts()
    model = ad.build("tagger", words=len(facts.words), classes=3, width=16, size=2).eval()

    def total(groups):
        loss = words = 0.0
        for group in groups:
            inputs, targets = table.batch(group, facts)
            count = int((targets != IGNORED).sum())
            loss += loss_of("tag", model(*inputs), targets).item() * count
            words += count
        return loss / words

    alone = total([np.array([i]) for i in range(40)])
    bucketed = batches(Draw(0, 0), 40, 8, table.lengths)
    plain = batches(Draw(0, 0), 40, 8)
    assert total(bucketed) == pytest.approx(alone, rel=1e-5)
    assert total(plain) == pytest.approx(alone, rel=1e-5)
    assert evaluate(model, table, facts, 7).loss == pytest.approx(alone, rel=1e-5)


def test_hidden_words_are_unknown_as_often_as_they_are_rare():
    table = Sentences(tuple([("often",) * 9 + (f"once{i}",) for i in range(400)]), tuple([("A",) * 10] * 400))
    facts = table.facts()
    plain = table.batch(np.arange(400), facts).inputs[0]
    hidden = table.batch(np.arange(400), facts, Augment(hide=1.0), Draw(3, 2))
    assert torch.equal(hidden.inputs[0], table.batch(np.arange(400), facts, Augment(hide=1.0), Draw(3, 2)).inputs[0])
    assert not torch.equal(
        hidden.inputs[0], table.batch(np.arange(400), facts, Augment(hide=1.0), Draw(3, 3)).inputs[0]
    )
    share = (hidden.inputs[0] != plain).float().mean(0)
    assert float(share[:9].max()) < 0.02
    assert 0.4 < float(share[9]) < 0.6
    assert set(hidden.inputs[0][hidden.inputs[0] != plain].tolist()) == {1}
    part = table.batch(np.array([5, 17]), facts, Augment(hide=1.0), Draw(3, 2)).inputs[0]
    assert torch.equal(part, hidden.inputs[0][[5, 17]])
    assert torch.equal(table.batch(np.arange(400), facts, Augment(hide=1.0)).inputs[0], plain)


TEXTS = {
    "Mr. Smith doesn't laugh.": [("Mr.", "Smith", "does", "n't", "laugh", ".")],
    "One. Two!\nthree": [("One", "."), ("Two", "!"), ("three",)],
    'He said: "It\'s done!" (Really?) Well...': [
        ("He", "said", ":", '"', "It", "'s", "done", "!", '"'),
        ("(", "Really", "?", ")"),
        ("Well", "..."),
    ],
    "a well-known e-mail, 3.14 at 12:30": [("a", "well", "-", "known", "e-mail", ",", "3.14", "at", "12:30")],
    "in the U.S. today": [("in", "the", "U.S.", "today")],
    "See www.example.org (v2.0). Now!": [
        ("See", "www", ".", "example", ".", "org", "(", "v2", ".", "0", ")", "."),
        ("Now", "!"),
    ],
    "don\u2019t, John\u2019s": [("do", "n\u2019t", ",", "John", "\u2019s")],
    " \n\t\n": [],
}


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_cut_as_treebanks_cut_it(text):
    assert sentences_of(text, {"Mr.", "U.S.", "e-mail", "do"}) == TEXTS[text]


@given(st.text(max_size=60), st.sets(st.text(min_size=1, max_size=4), max_size=4))
def test_cutting_text_loses_no_character(text, known):
    found = sentences_of(text, known)
    assert "".join(word for sentence in found for word in sentence) == "".join(text.split())
    assert all(word and not any(map(str.isspace, word)) for sentence in found for word in sentence)


@pytest.fixture(scope="module")
def tagged(tmp_path_factory):
    root = tmp_path_factory.mktemp("tagged")
    write_treebank(root / "data" / "treebank")
    run = train(tiny_tagger("refine.at=[2]", "refine.unit=step", "data.hide=1.0"), root / "run", root / "data")
    return root, run


def test_a_tagger_grows_compresses_and_is_judged_like_every_model(tagged, capsys):
    root, run = tagged
    assert run.metrics()[-1]["kind"] == "test"
    data = ("--data", root / "data", "--json")
    whole = json.loads(run_command(capsys, "evaluate", run.folder, *data).out)
    assert 0 <= whole["test_accuracy"] <= 100
    done = run_command(capsys, "compress", run.folder, "--size", 1, "--steps", 1, "--out", root / "small", "--json")
    assert done.code == 0, done.err
    assert run_command(capsys, "evaluate", root / "small", *data).code == 0
    assert run_command(capsys, "check", run.folder, *data).code in (0, 1)
    assert run_command(capsys, "report", run.folder, *data).code == 0


def test_text_is_tagged_word_by_word(tagged, capsys, monkeypatch):
    root, run = tagged
    text = root / "text.txt"
    text.write_text("1a 2b never-seen. 3c\n4d\n")
    found = json.loads(run_command(capsys, "predict", run.folder, text, "--json").out)["predictions"][str(text)]
    words = [[entry["word"] for entry in sentence["words"]] for sentence in found]
    assert words == [["1a", "2b", "never", "-", "seen", "."], ["3c"], ["4d"]]
    known = {entry["word"]: entry["known"] for sentence in found for entry in sentence["words"]}
    assert known["1a"]
    assert not known["never"]
    assert all(entry["label"] in run.facts.labels for sentence in found for entry in sentence["words"])
    monkeypatch.setattr("sys.stdin", io.StringIO("1a unseen"))
    assert "unseen*/" in run_command(capsys, "predict", run.folder, "-").err
    bank = root / "data" / "treebank" / "made-ud-test.conllu"
    tagged_bank = json.loads(run_command(capsys, "predict", run.folder, bank, "--json").out)["predictions"][str(bank)]
    right = total = 0
    for sentence in tagged_bank:
        for entry in sentence["words"]:
            right += entry["label"] == "ABCD"["abcd".index(entry["word"][-1])]
            total += 1
    scored = json.loads(run_command(capsys, "evaluate", run.folder, "--data", root / "data", "--json").out)
    assert 100 * right / total == pytest.approx(scored["test_accuracy"])


def test_bad_text_is_refused(tagged, capsys):
    root, run = tagged
    for name, content, says in (
        ("empty.txt", b" \n", "no words"),
        ("latin.txt", b"caf\xe9", "not UTF-8"),
        ("long.txt", b"a " * 3000, "more than 2,000"),
        ("bad.conllu", b"1\tword\n", "columns"),
    ):
        (root / name).write_bytes(content)
        assert_refused(run_command(capsys, "predict", run.folder, root / name), 3, name, says)
    assert_refused(run_command(capsys, "predict", run.folder, root / "none.txt"), 3, "none.txt")


def test_an_unknown_tag_at_evaluation_is_refused(tagged, capsys, tmp_path):
    _, run = tagged
    write_treebank(tmp_path / "treebank", tags="ABCQ")
    assert_refused(run_command(capsys, "evaluate", run.folder, "--data", tmp_path), 3, "tag 'Q'", "A, B, C, D")


def test_hiding_words_is_for_sentences(tmp_path):
    with pytest.raises(ConfigError, match=r"data\.hide is for words"):
        train(tiny("data.hide=1.0"), tmp_path / "run")
