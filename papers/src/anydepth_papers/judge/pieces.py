"""The pieces of a study in one file of the evidence, so that judging or drawing again needs no training."""

from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from anydepth import artifact
from anydepth.artifact.reading import parse_json
from anydepth.errors import ModelFileError

KEPT = "pieces.json"


def plain(settings: Any) -> Any:
    """Settings as JSON values."""
    if is_dataclass(settings) and not isinstance(settings, type):
        return plain(asdict(settings))
    if isinstance(settings, dict):
        return {str(key): plain(value) for key, value in settings.items()}
    if isinstance(settings, (list, tuple)):
        return [plain(value) for value in settings]
    return settings if settings is None or isinstance(settings, (bool, int, float, str)) else str(settings)


def digest_of(settings: Any, scale: str) -> str:
    """The same for the same settings at the same scale."""
    return artifact.digest(artifact.json_bytes([scale, plain(settings)], compact=True))[:16]


def read_pieces(path: Path, digest: str) -> dict[str, dict[str, Any]]:
    """Pieces by key; none where there is no file, or where it was made with other settings."""
    if not path.exists():
        return {}
    found = parse_json(artifact.read_bytes(path), str(path))
    if set(found) != {"settings", "pieces"}:
        raise ModelFileError(f"{path} does not hold the pieces of a study; delete it")
    return found["pieces"] if found["settings"] == digest else {}


def write_pieces(path: Path, digest: str, pieces: dict[str, dict[str, Any]]) -> None:
    """A line for every piece, so that differences can be read."""
    lines = [f"{_text(key)}:{_text(piece)}" for key, piece in sorted(pieces.items())]
    body = ",\n".join(lines)
    artifact.write_bytes(path, f'{{"settings":{_text(digest)},"pieces":{{\n{body}\n}}}}\n'.encode())


def _text(value: Any) -> str:
    """In one line; studies may go by the order of names."""
    return artifact.json_bytes(value, compact=True, keep_order=True).decode().strip()
