"""Files on disk: bytes written whole or not at all, read with suspicion; hashes, JSON, and tensors without pickle."""

from anydepth.artifact.reading import check_seal, digest, read_bytes, read_json, seal_of, sealed
from anydepth.artifact.staging import check_fillable, is_staging, whole_folder
from anydepth.artifact.tensor_files import describe_tensors, pack_tensors, read_tensors
from anydepth.artifact.writing import (
    TEMPORARY,
    json_bytes,
    make_folder,
    reached,
    remove_temporaries,
    sync_folder,
    watchers,
    write_bytes,
    write_json,
    write_pair,
)

__all__ = [
    "TEMPORARY",
    "check_fillable",
    "check_seal",
    "describe_tensors",
    "digest",
    "is_staging",
    "json_bytes",
    "make_folder",
    "pack_tensors",
    "reached",
    "read_bytes",
    "read_json",
    "read_tensors",
    "remove_temporaries",
    "seal_of",
    "sealed",
    "sync_folder",
    "watchers",
    "whole_folder",
    "write_bytes",
    "write_json",
    "write_pair",
]
