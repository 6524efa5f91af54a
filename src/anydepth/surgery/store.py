"""Saving and loading models: model.json, written from the live model, beside model.safetensors."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import NamedTuple
from warnings import warn

from torch import Tensor, nn

from anydepth import artifact
from anydepth.artifact.tensor_files import MOST_TENSORS
from anydepth.artifact.writing import staged
from anydepth.block.block import ContinuousBlock
from anydepth.block.form import check_modest, forms_of, is_form, weights_of
from anydepth.block.roles import unfilled
from anydepth.errors import AnydepthError, AnydepthWarning, ConfigError, ModelFileError
from anydepth.json_values import JsonObject
from anydepth.registry import UnknownPartError
from anydepth.solve.solver import make_solver
from anydepth.surgery.blocks import blocks_in
from anydepth.surgery.change import Change
from anydepth.surgery.size_limit import SizeLimit
from anydepth.weights.choose import read_function
from anydepth.zoo.parts import architecture_of, build

FORMAT, VERSION = "anydepth-model", 1
MODEL, TENSORS = "model.json", "model.safetensors"
_SAME = "build the same architecture first"


class Place(NamedTuple):
    """Where the two files of a model are."""

    tensors: Path
    model: Path


def place_of(path: Path) -> Place:
    """In a folder; or, for FILE.safetensors, that and FILE.json beside it."""
    if path.suffix.lower() == Path(TENSORS).suffix and not path.is_dir():
        return Place(path, path.with_suffix(Path(MODEL).suffix))
    return Place(path / TENSORS, path / MODEL)


def save(model: nn.Module, folder: str | PathLike[str]) -> Path:
    """Write a model into a folder, or as FILE.safetensors with FILE.json beside it.

    The tensors are written first, then the description with their SHA-256.
    """
    folder = Path(folder)
    for block in blocks_in(model).values():
        block.check_inputs()
    tensors = weights_of(model)
    content = artifact.pack_tensors(tensors)
    description = {
        "format": FORMAT,
        "version": VERSION,
        "architecture": architecture_of(model),
        "blocks": describe_blocks(model),
        "tensors": artifact.describe_tensors(tensors),
        "sha256": artifact.digest(content),
    }
    sealed = artifact.json_bytes(artifact.sealed(description))
    place = place_of(folder)
    if place.model.parent != folder:
        _check_ours(place.model)
    artifact.write_pair(place.tensors, content, place.model, sealed)
    return folder


def _check_ours(path: Path) -> None:
    """Refuse to write over a file that describes something else."""
    if not path.exists():
        return
    try:
        is_ours = artifact.read_json(path).get("format") == FORMAT
    except AnydepthError:
        is_ours = False
    if not is_ours:
        raise ConfigError(f"{path} exists and does not describe a model; save under another name, or move it away")


def describe_blocks(model: nn.Module) -> JsonObject:
    """Every block's solver, weight functions and history, as JSON values."""
    return {name: _describe(block) for name, block in blocks_in(model).items()}


def load(folder: str | PathLike[str], into: nn.Module | None = None, allow_nonfinite: bool = False) -> nn.Module:
    """The saved model, from a folder or a .safetensors file: built from its registered parts, or filled into a model of
    the same architecture.

    The blocks of `into` take on the sizes, bases and solvers of the file; it is unchanged when
    the file does not fit. Weights that are not finite are refused unless they are allowed.
    """
    folder = Path(folder)
    place = place_of(folder)
    described, tensors = _whole_pair(place, allow_nonfinite)
    with _blamed_on(place.model):
        check_modest(described)
        if into is not None:
            _fill(into, described["blocks"], tensors, assign=False)
            return into
        with unfilled(), SizeLimit(sum(tensor.numel() for tensor in tensors.values()), len(tensors)):
            model = _rebuilt(described, folder)
        _fill(model, described["blocks"], tensors, assign=True)
    return model


def fill(model: nn.Module, blocks: JsonObject, tensors: dict[str, Tensor], origin: Path) -> None:
    """Give a model of the same architecture the blocks and tensors of a file; it is unchanged when they do not fit."""
    with _blamed_on(origin):
        check_modest(blocks)
        _fill(model, blocks, tensors, assign=False)


@contextmanager
def _blamed_on(path: Path) -> Iterator[None]:
    """Whatever goes wrong inside is the file's fault."""
    try:
        yield
    except ModelFileError:
        raise
    except UnknownPartError as error:
        raise ModelFileError(
            f"{path} does not describe this model: {error}; a part of your own, or of a package, is known only after "
            "the module that registers it was imported"
        ) from error
    except (AnydepthError, ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        cause = f"{type(error).__name__}: {error}" if not isinstance(error, AnydepthError) else str(error)
        raise ModelFileError(f"{path} does not describe this model: {cause}") from error


def _fill(model: nn.Module, described: JsonObject, tensors: dict[str, Tensor], assign: bool) -> None:
    blocks = _matched(model, described)
    prepared = {name: _prepare(name, blocks[name], told) for name, told in described.items()}
    _check_tensors(_expected(model, prepared), tensors)
    for name, (functions, solver, history) in prepared.items():
        blocks[name].resize(functions)
        blocks[name].set_solver(**solver)
        blocks[name].history = history
    model.load_state_dict({**tensors, **forms_of(model)}, assign=assign)


def _describe(block: ContinuousBlock) -> JsonObject:
    return {
        "unit": type(block.unit).__name__,
        "solver": block.solver.describe(),
        "scale": str(block.scale),
        "time": block.time,
        "weights": {name: function.describe() for name, function in block.functions.items()},
        "history": [change.describe() for change in block.history],
    }


def _description(path: Path) -> JsonObject:
    described = artifact.read_json(path)
    if described.get("format") != FORMAT:
        raise ModelFileError(
            f"{path} is not an anydepth model: its format is {described.get('format')!r}, expected {FORMAT!r}"
        )
    version = described.get("version")
    if version != VERSION:
        raise ModelFileError(
            f"{path} has format version {version!r}, expected {VERSION}; use the anydepth that wrote it"
        )
    for key, kind in (("blocks", dict), ("tensors", dict), ("sha256", str), ("seal", str)):
        if not isinstance(described.get(key), kind):
            raise ModelFileError(f"{path} lacks {key!r}; the file is damaged, save the model again")
    if len(described["tensors"]) > MOST_TENSORS:
        raise ModelFileError(f"{path} describes {len(described['tensors']):,} tensors, more than {MOST_TENSORS:,}")
    artifact.check_seal(described, path)
    return described


def _whole_pair(place: Place, allow_nonfinite: bool) -> tuple[JsonObject, dict[str, Tensor]]:
    """The description and the tensors it vouches for; it may still be staged, if saving was killed halfway."""
    waiting = staged(place.model)
    try:
        return _pair(place, allow_nonfinite)
    except ModelFileError:
        if not waiting.exists():
            raise
        with suppress(ModelFileError):
            return _pair(place._replace(model=waiting), allow_nonfinite)
        raise


def _pair(place: Place, allow_nonfinite: bool) -> tuple[JsonObject, dict[str, Tensor]]:
    described = _description(place.model)
    tensors = artifact.read_tensors(place.tensors, described["tensors"], described["sha256"], allow_nonfinite)
    return described, tensors


def _rebuilt(described: JsonObject, folder: Path) -> nn.Module:
    architecture = described.get("architecture")
    if not isinstance(architecture, dict):
        raise ModelFileError(
            f"{folder} holds a model that was not built from registered parts; use load(folder, into=model)"
        )
    return build(architecture["model"], **architecture["config"])


def _matched(model: nn.Module, told: JsonObject) -> dict[str, ContinuousBlock]:
    blocks = blocks_in(model)
    if blocks.keys() != told.keys():
        raise ModelFileError(f"the file has blocks {_names(told)}, the model has {_names(blocks)}; {_SAME}")
    for name, block in blocks.items():
        for key, mine in (("scale", str(block.scale)), ("time", block.time)):
            if told[name][key] != mine:
                raise ModelFileError(
                    f"block {name!r} has {key} {told[name][key]} in the file and {mine} in the model; {_SAME}"
                )
    return blocks


def _prepare(name: str, block: ContinuousBlock, told: JsonObject) -> tuple:
    mine = {tensor: function.describe() for tensor, function in block.functions.items()}
    functions = {
        tensor: block.functions[tensor] if described == mine.get(tensor) else read_function(described)
        for tensor, described in told["weights"].items()
    }
    if functions.keys() != block.functions.keys():
        raise ModelFileError(
            f"block {name!r} has tensors {_names(functions)} in the file and {_names(block.functions)} in the model"
        )
    if told["unit"] != type(block.unit).__name__:
        warn(
            f"block {name!r} was saved with unit {told['unit']} and is loaded into {type(block.unit).__name__}",
            AnydepthWarning,
            stacklevel=4,
        )
    solver = make_solver(**told["solver"]).describe()
    return functions, solver, tuple(Change.read(change) for change in told["history"])


def _expected(model: nn.Module, prepared: dict[str, tuple]) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors that the model will have when its blocks have taken on their new functions."""
    blocks = blocks_in(model)
    everywhere = {n: m for n, m in model.named_modules(remove_duplicate=False) if isinstance(m, ContinuousBlock)}
    sizes, own = {}, {}
    for name, (functions, *_) in prepared.items():
        prefixes = [f"{other}." if other else "" for other, block in everywhere.items() if block is blocks[name]]
        for tensor, function in functions.items():
            stored = blocks[name].stored(tensor)
            sizes[id(stored)] = function.size
            shapes = function.own_shapes(stored.shape[1:])
            home = blocks[name].home_of(tensor)
            own |= {f"{prefix}{home}.{key}": shape for prefix in prefixes for key, shape in shapes.items()}
    inside = tuple(f"{name}.evolutions." if name else "evolutions." for name in everywhere)
    kept = {
        key: value
        for key, value in model.state_dict(keep_vars=True).items()
        if not (key.startswith(inside) or is_form(key))
    }
    shapes = {k: (sizes[id(v)], *v.shape[1:]) if id(v) in sizes else tuple(v.shape) for k, v in kept.items()}
    return shapes | own


def _check_tensors(expected: dict[str, tuple[int, ...]], tensors: dict[str, Tensor]) -> None:
    missing, extra = expected.keys() - tensors.keys(), tensors.keys() - expected.keys()
    if missing or extra:
        raise ModelFileError(
            f"the tensors do not fit the model: missing {_names(missing)}; unexpected {_names(extra)}; {_SAME}"
        )
    for name, shape in expected.items():
        if tuple(tensors[name].shape) != shape:
            raise ModelFileError(f"tensor {name!r} has shape {tuple(tensors[name].shape)}, expected {shape}; {_SAME}")


def _names(names: Iterable[object]) -> str:
    listed = sorted(map(str, names))
    shown = ", ".join(listed[:6]) + (f" and {len(listed) - 6} more" if len(listed) > 6 else "")
    return shown or "none"
