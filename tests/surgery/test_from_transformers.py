"""Stacks of transformers' models, by config only, as blocks and back; skipped where transformers is not installed."""

import pytest
import torch

import anydepth as ad
from anydepth.errors import UnitError

transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install transformers")

SMALL = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 24}
IDS = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 0, 0]])
TEXT = {"input_ids": IDS, "attention_mask": (IDS > 0).long()}
LLAMA = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 24}
GPT = {"n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 16}
ENDS = {"bos_token_id": 1, "eos_token_id": 2}

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]


def bert(**options):
    return transformers.BertModel(transformers.BertConfig(vocab_size=20, **SMALL, **options))


def vit():
    return transformers.ViTModel(transformers.ViTConfig(image_size=16, patch_size=8, **SMALL))


def gpt():
    return transformers.GPT2Model(transformers.GPT2Config(vocab_size=20, **GPT, **ENDS))


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=20, **LLAMA))


def t5():
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 4, "num_heads": 2}
    return transformers.T5EncoderModel(transformers.T5Config(vocab_size=20, **sizes))


IMAGE = {"pixel_values": torch.linspace(-1, 1, 2 * 3 * 16 * 16, dtype=torch.float64).reshape(2, 3, 16, 16)}
MODELS = {
    "bert": (bert, TEXT, "encoder.layer"),
    "eager bert": (lambda: bert(attn_implementation="eager"), TEXT, "encoder.layer"),
    "vit": (vit, IMAGE, "*layers"),
    "gpt2": (gpt, TEXT, "h"),
    "llama": (llama, TEXT, "model.layers"),
    "t5": (t5, TEXT, "encoder.block"),
}


def seen(model, inputs, train):
    """The first output and the gradients, by name."""
    model.train(train)
    torch.manual_seed(1)
    out = model(**inputs)[0]
    names, parameters = zip(*model.named_parameters(), strict=True)
    gradients = torch.autograd.grad(out.sin().sum(), parameters, allow_unused=True)
    return out.detach(), dict(zip(names, gradients, strict=True))


def at_layer(name, path, grads):
    """The gradient of a layer's tensor in a model whose layers are a block, whole or behind a first layer."""
    index, _, rest = name.removeprefix(f"{path}.").partition(".")
    stacks = sorted({key.removeprefix(f"{path}.").partition(".")[0] for key in grads if ".block.unit." in key})
    inside = grads.get(f"{path}.{stacks[0]}.block.unit.layer.{rest}")
    return grads[name] if int(index) < int(stacks[0]) else inside[int(index) - int(stacks[0])]


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_outputs_and_gradients_are_those_of_the_model(name, train):
    make, inputs, path = MODELS[name]
    model = make().double()
    made = ad.from_layers(model, where=path)
    home = next(name for name, part in model.named_modules() if isinstance(part, torch.nn.ModuleList))
    out, grads = seen(model, inputs, train)
    found, found_grads = seen(made, inputs, train)
    torch.testing.assert_close(found, out, rtol=0, atol=1e-12)
    for key, grad in grads.items():
        other = at_layer(key, home, found_grads) if key.startswith(f"{home}.") else found_grads[key]
        if grad is None or other is None:
            assert grad is other, key
        else:
            torch.testing.assert_close(other, grad, rtol=0, atol=1e-12, msg=key)
    back = ad.to_layers(made)
    assert all(torch.equal(tensor, model.state_dict()[key]) for key, tensor in back.state_dict().items())
    assert len(back.state_dict()) == len(model.state_dict())


def test_hidden_states_are_recorded_as_before():
    model = bert().double().eval()
    made = ad.from_layers(model)
    one, other = (each(**TEXT, output_hidden_states=True).hidden_states for each in (model, made))
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_the_cache_is_off_inside_refused_when_asked_for_and_on_again_afterwards():
    model = llama().double().eval()
    made = ad.from_layers(model)
    assert (model.config.use_cache, made.config.use_cache) == (True, False)
    with pytest.raises(UnitError, match="use_cache=False"):
        made(IDS, use_cache=True)
    options = {"max_new_tokens": 3, "do_sample": False, "pad_token_id": 0}
    expected = model.generate(IDS[:1], **options)
    assert torch.equal(made.generate(IDS[:1], **options), expected)
    back = ad.to_layers(made)
    assert back.config.use_cache
    assert torch.equal(back.generate(IDS[:1], **options), expected)


def test_freezing_by_export():
    made = ad.from_layers(bert()).eval()
    frozen = ad.freeze(made, TEXT)
    other = {name: tensor[:, :5] for name, tensor in TEXT.items()}
    with torch.no_grad():
        torch.testing.assert_close(frozen(**other).last_hidden_state, made(**other).last_hidden_state)
