"""Values as they are in JSON files: read from outside, and checked where they are used."""

from typing import Any

JsonObject = dict[str, Any]
"""An object of JSON; what is in it is known to those who wrote it."""
