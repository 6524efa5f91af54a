"""diffrax in a process of its own, so that JAX's threads and PyTorch's do not get in each other's way.

python -m anydepth_papers.bench.diffrax_side train|answer BATCH: one round for every line on standard input.
"""

import subprocess
import sys
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

STEPS, WIDTHS = 64, (2, 48, 48, 2)


class DiffraxSide:
    """A side whose rounds are run by the other process."""

    def __init__(self, kind: str, batch: int):
        program = [sys.executable, "-m", __name__, kind, str(batch)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(program, text=True, **pipes)

    @classmethod
    def where_installed(cls, kind: str, batch: int) -> "dict[str, DiffraxSide]":
        return {"diffrax": cls(kind, batch)} if find_spec("diffrax") is not None else {}

    def __call__(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        if not self.process.stdout.readline():
            raise RuntimeError("the process with diffrax ended")

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def _rounds(kind: str, batch: int) -> Any:
    """What one round does: an SGD step with momentum, or an answer; compiled."""
    import diffrax  # pyright: ignore[reportMissingImports]
    import jax  # pyright: ignore[reportMissingImports]
    import jax.numpy as jnp  # pyright: ignore[reportMissingImports]

    keys = jax.random.split(jax.random.PRNGKey(0), len(WIDTHS))
    pairs = list(pairwise(WIDTHS))
    weights = [jax.random.normal(k, pair) / pair[0] ** 0.5 for k, pair in zip(keys, pairs, strict=False)]
    parameters = [(w, jnp.zeros(w.shape[1])) for w in weights]
    x = jax.random.normal(keys[-1], (batch, WIDTHS[0]))

    def field(_t: Any, y: Any, layers: Any) -> Any:
        for w, b in layers[:-1]:
            y = jax.nn.relu(y @ w + b)
        return y @ layers[-1][0] + layers[-1][1]

    def solved(layers: Any) -> Any:
        options = {"max_steps": STEPS, "adjoint": diffrax.RecursiveCheckpointAdjoint(checkpoints=STEPS)}
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(field), diffrax.Euler(), 0.0, 1.0, 1 / STEPS, x, args=layers, **options
        )
        return found.ys[-1]

    @jax.jit
    def step(layers: Any, velocity: Any) -> Any:
        slope = jax.grad(lambda p: jnp.mean(solved(p) ** 2))(layers)
        velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, slope)
        return jax.tree.map(lambda p, v: p - 1e-3 * v, layers, velocity), velocity

    state = (parameters, jax.tree.map(jnp.zeros_like, parameters))
    answer = jax.jit(solved)

    def run() -> None:
        nonlocal state
        if kind == "train":
            state = step(*state)
            jax.block_until_ready(state)
        else:
            jax.block_until_ready(answer(parameters))

    return run


def main(kind: str, batch: int) -> None:
    run = _rounds(kind, batch)
    for _ in sys.stdin:
        run()
        sys.stdout.write("done\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
