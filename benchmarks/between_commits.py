"""`anydepth bench` of this checkout and of an earlier one, case by case in turns: has anything become slower?

    python benchmarks/between_commits.py OTHER_CHECKOUT [--only "rk4*"] [--turns 3] [--rounds 5]

OTHER_CHECKOUT is a clone at another commit with a .venv of its own. Only sides that are
anydepth's and that both commits have are compared: the ratio of each to the peer of its case, now divided by
then, in the median over the turns.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

HERE = Path(__file__).parents[1]


def measured(checkout: Path, only: str, rounds: int) -> dict[tuple[str, str], float]:
    """Ratios to the peer by case and side, measured with the checkout's own command."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "results.json"
        words = ["bench", "--quick", "--only", only, "--rounds", str(rounds), "--out", str(out)]
        subprocess.run([checkout / ".venv" / "bin" / "anydepth", *words], cwd=checkout, check=True, capture_output=True)
        cases = json.loads(out.read_text())["cases"]
    return {
        (case, name): side["ratio"]
        for case, told in cases.items()
        for name, side in told["sides"].items()
        if name.startswith(("anydepth", "frozen", "checkpoint", "bare"))
    }


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("other", type=Path)
    reader.add_argument("--only", default="*")
    reader.add_argument("--turns", type=int, default=3)
    reader.add_argument("--rounds", type=int, default=5)
    given = reader.parse_args()
    now, then = [], []
    for turn in range(given.turns):
        sys.stderr.write(f"turn {turn + 1} of {given.turns}\n")
        then.append(measured(given.other.absolute(), given.only, given.rounds))
        now.append(measured(HERE, given.only, given.rounds))
    sys.stdout.write("| case | side | then | now | now / then |\n| --- | --- | --- | --- | --- |\n")
    for key in (key for key in now[0] if key in then[0]):
        before, after = (median(turn[key] for turn in turns) for turns in (then, now))
        sys.stdout.write(f"| {key[0]} | {key[1]} | {before:.2f} | {after:.2f} | {after / before:.2f} |\n")


if __name__ == "__main__":
    main()
