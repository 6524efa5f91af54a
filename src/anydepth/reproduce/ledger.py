"""The claims ledger: one page from the results in a folder of evidence."""

import sys
from pathlib import Path

from anydepth import artifact
from anydepth.reproduce.publish import RESULT
from anydepth.reproduce.section import section

_HEAD = """# Evidence

What the papers claim, and what this code shows. Every section was made by the command in it; this page is made from
`evidence/` by `make evidence`. Undecided are claims that were not run at their scale, and differences within the noise
of the seeds; a claim that is not here has not been run yet.
"""


def ledger(evidence: Path) -> str:
    """The page."""
    results = [artifact.read_json(path) for path in sorted(evidence.glob(f"*/{RESULT}"))]
    results.sort(key=lambda result: all(v["verdict"] == "undecided" for v in result["verdicts"]))
    counts = [v["verdict"] for result in results for v in result["verdicts"]]
    words = ", ".join(f"{counts.count(word)} {word}" for word in ("holds", "does not hold", "undecided"))
    return "\n".join([_HEAD, f"{len(counts)} claims: {words}.", "", *(section(result) for result in results)])


if __name__ == "__main__":
    artifact.write_bytes(Path(sys.argv[2]), ledger(Path(sys.argv[1])).encode())
