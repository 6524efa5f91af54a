"""File formats of exported models: how one is written, and how it is run again."""

import io
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from anydepth.deploy.export.ports import BATCH, WORDS, Call, Port
from anydepth.errors import ConfigError, ModelFileError, NumericalError, choices

OPSET = 20
"""Version of ONNX's operators that is written."""
_INSTALL = "install them with: pip install 'anydepth[onnx]'"


@dataclass(frozen=True)
class Format:
    """One kind of file."""

    name: str
    needs: tuple[str, ...]
    """Packages without which it cannot be written and compared."""
    needs_to_run: tuple[str, ...]
    pack: Callable[[ExportedProgram, Sequence[Port], Port], bytes]
    open: Callable[[bytes, Sequence[Port]], Call]
    opset: int | None = None
    is_single: bool = False
    """Whether numbers are float32 whatever the model's are."""

    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in ("anydepth", "torch", *self.needs)}


def format_of(path: Path, to_run: bool = False) -> Format:
    """By the file's suffix; one whose packages are missing is refused."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"{path} has suffix {path.suffix!r}; {choices(path.suffix, FORMATS)}")
    found = FORMATS[path.suffix.lower()]
    missing = [name for name in (found.needs_to_run if to_run else found.needs) if find_spec(name) is None]
    if missing:
        raise ConfigError(f"{found.name} needs the packages {', '.join(missing)}, which are missing; {_INSTALL}")
    return found


def traced(frozen: nn.Module, ports: Sequence[Port], inputs: Sequence[Tensor]) -> ExportedProgram:
    """A frozen model as one graph for any batch, and any length of sentence."""
    sizes = {name: Dim(name) for name in (BATCH, WORDS)}
    free = tuple({i: sizes[n] for i, n in enumerate(port.shape) if isinstance(n, str)} for port in ports)
    try:
        with quietly():
            return torch.export.export(frozen, tuple(inputs), dynamic_shapes=free)
    except (RuntimeError, TypeError, ValueError, AttributeError, LookupError) as error:
        raise ConfigError(f"torch.export cannot take this model: {error}") from None


def _pack_pt2(program: ExportedProgram, _ports: Sequence[Port], _output: Port) -> bytes:
    file = io.BytesIO()
    with quietly():
        torch.export.save(program, file)
    return file.getvalue()


def _open_pt2(content: bytes, _ports: Sequence[Port]) -> Call:
    try:
        with quietly():
            module = torch.export.load(io.BytesIO(content)).module()
    except Exception as error:
        raise ModelFileError(f"torch.export cannot load it: {error}; export it again") from None

    def call(inputs: Sequence[Tensor]) -> Tensor:
        try:
            return module(*inputs)
        except (RuntimeError, ValueError, TypeError, AssertionError) as error:
            raise ModelFileError(f"it does not run on the inputs that its .json describes: {error}") from None

    return call


def _pack_onnx(program: ExportedProgram, ports: Sequence[Port], output: Port) -> bytes:
    names = [port.name for port in ports]
    try:
        with quietly():
            made = torch.onnx.export(
                program,
                (),
                input_names=names,
                output_names=[output.name],
                opset_version=OPSET,
                verbose=False,
                dynamo=True,
            )
            assert made is not None
            inputs = zip(made.model.graph.inputs, ports, strict=True)
            free = {str(old): new for x, port in inputs for old, new in zip(x.shape or (), port.shape, strict=True)}
            made.rename_axes({old: new for old, new in free.items() if isinstance(new, str)})
            return made.model_proto.SerializeToString()
    except (RuntimeError, TypeError, ValueError) as error:
        raise ConfigError(f"ONNX cannot express this model: {error}") from None


def _open_onnx(content: bytes, ports: Sequence[Port]) -> Call:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = torch.get_num_threads()
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ModelFileError(f"ONNX Runtime cannot load it: {error}; export it again") from None
    names, wanted = [x.name for x in session.get_inputs()], [port.name for port in ports]
    if names != wanted or not session.get_outputs():
        raise ModelFileError(f"it takes {names!r:.80}, but its .json says {wanted!r:.80}; export it again")

    def call(inputs: Sequence[Tensor]) -> Tensor:
        given = {port.name: x.contiguous().numpy() for port, x in zip(ports, inputs, strict=True)}
        try:
            return torch.from_numpy(session.run(None, given)[0])
        except Exception as error:  # of classes of its own
            raise NumericalError(f"ONNX Runtime failed: {error}") from None

    return call


@contextmanager
def quietly() -> Iterator[None]:
    """Without what the exporters say about themselves."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


_ONNX = ("onnx", "onnxruntime", "onnxscript")
FORMATS = {
    ".pt2": Format("torch.export", (), (), _pack_pt2, _open_pt2),
    ".onnx": Format("ONNX", _ONNX, ("onnxruntime",), _pack_onnx, _open_onnx, OPSET, is_single=True),
}
"""By suffix."""
