"""Bodies of requests as inputs of a model: JSON arrays, PNG and JPEG, plain text; errors say what is wrong."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor

from anydepth.data.images import normalised
from anydepth.data.pictures import read_picture
from anydepth.data.text import sentences_of
from anydepth.deploy.input_files import array_inputs
from anydepth.deploy.predictor import Predictor
from anydepth.errors import DataError

IMAGES = {"image/png": b"\x89PNG", "image/jpeg": b"\xff\xd8\xff"}
JSON, TEXT = "application/json", "text/plain"
_BODY = Path("the body")
_LONGEST = 2000
"""Words of a sentence."""

Sentence = tuple[str, ...]
Asked = Tensor | list[Sentence]
"""What one request wants answers for."""


class RequestError(Exception):
    """What is wrong with a request, and the status that says so."""

    def __init__(self, status: int, message: str):
        super().__init__(" ".join(message.split())[:300])
        self.status = status


@dataclass(frozen=True)
class Limits:
    """Of one request."""

    body_bytes: int = 4_000_000
    pixels: int = 4_000_000
    examples: int = 64
    body_seconds: float = 10.0
    """For the whole body to arrive."""
    answer_seconds: float = 30.0
    """From then on."""
    at_once: int = 256
    """Requests at any moment."""


def kinds_for(predictor: Predictor) -> tuple[str, ...]:
    """Content types that a model can answer."""
    facts = predictor.facts
    if facts.kind == "sentences":
        return (TEXT,)
    is_picture = facts.kind == "images" and facts.shape[0] in (1, 3)
    return (JSON, *(IMAGES if is_picture else ()))


def read_body(content: bytes, kind: str, predictor: Predictor, limits: Limits, resize: bool = False) -> Asked:
    """The examples in a body."""
    kind = kind.partition(";")[0].strip().lower()
    known = kinds_for(predictor)
    if kind not in known:
        raise RequestError(415, f"content type {kind or 'missing'!r:.60}, expected {' or '.join(known)}")
    try:
        if kind == TEXT:
            return _sentences(content, predictor, limits)
        found = _array(content, predictor) if kind == JSON else _picture(content, kind, predictor, limits, resize)
    except DataError as error:
        raise RequestError(400, str(error)) from None
    if len(found) > limits.examples:
        raise RequestError(413, f"the body has {len(found):,} examples, more than {limits.examples}; send fewer")
    return _fitting(found, predictor)


def _fitting(found: Tensor, predictor: Predictor) -> Tensor:
    """In the model's precision."""
    inputs = found.to(predictor.dtype)
    if not torch.isfinite(inputs).all():
        raise RequestError(400, f"the body has numbers too large for {str(predictor.dtype).removeprefix('torch.')}")
    return inputs


def _array(content: bytes, predictor: Predictor) -> Tensor:
    try:
        value = json.loads(content, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise RequestError(400, f"the body is no JSON: {error}") from None
    if not isinstance(value, dict) or list(value) != ["inputs"]:
        raise RequestError(400, 'the body must be an object with one key: {"inputs": [...]}')
    return array_inputs(str(_BODY), _numbers(value["inputs"]), predictor.facts)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not allowed, inputs must be finite")


def _numbers(value: object) -> np.ndarray:
    """Nested lists of numbers, all of the same length on each level."""
    try:
        found = np.array(value)
    except (ValueError, RecursionError, MemoryError):
        raise RequestError(400, "inputs must be nested lists, all of the same length on each level") from None
    if found.dtype.kind not in "iuf" or not found.size:
        raise RequestError(400, "inputs must be lists of numbers, at least one")
    return found.astype(np.float64)


def _picture(content: bytes, kind: str, predictor: Predictor, limits: Limits, resize: bool) -> Tensor:
    if not content.startswith(IMAGES[kind]):
        raise RequestError(400, f"the body does not begin like {kind}")
    facts = predictor.facts
    channels, height, width = facts.shape
    try:
        pixels = read_picture(_BODY, (channels, height, width), facts.fits or resize, limits.pixels, content)
    except DataError as error:
        raise RequestError(400, str(error).replace("--resize", "?resize=1")) from None
    return normalised(torch.from_numpy(pixels[None].copy()), facts)


def _sentences(content: bytes, predictor: Predictor, limits: Limits) -> list[Sentence]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RequestError(400, f"the text is not UTF-8: {error.reason} at byte {error.start}") from None
    found = sentences_of(text, frozenset(predictor.facts.words))
    if not found:
        raise RequestError(400, "the text holds no words; give at least one")
    if len(found) > limits.examples:
        raise RequestError(413, f"the text has {len(found):,} sentences, more than {limits.examples}; send fewer")
    if max(map(len, found)) > _LONGEST:
        raise RequestError(413, f"a sentence has more than {_LONGEST:,} words; break it up")
    return found
