"""Every figure and table of the four papers, and their claims and requirements without one: where each is shown."""

from dataclasses import dataclass

FIGURES = {"C": 11, "P": 22, "S": 6, "A": 6}
TABLES = {"C": 1, "P": 1, "S": 8, "A": 4}
"""How many the papers have, appendices included."""
REQUIREMENTS = {"C": 16, "P": 12, "S": 13, "A": 10}
"""How many things beside them a paper asks of an implementation, or claims, are counted here; `C.4` is the fourth."""
_SKETCH = "a sketch: nothing to run"


@dataclass(frozen=True)
class Item:
    """What a paper shows or asks for, and the studies that run it, the tests that check it, or why neither does."""

    paper: str
    name: str
    shows: str
    studies: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    reason: str = ""


def _items(paper: str, *rows: tuple[str, str, str]) -> tuple[Item, ...]:
    """Rows of name, what is shown, and words: `study NAME`, `test NAME`, or a reason, with semicolons between."""
    return tuple(_item(paper, *row) for row in rows)


def _item(paper: str, name: str, shows: str, where: str) -> Item:
    parts = [part.strip() for part in where.split(";")]
    studies = tuple(part.removeprefix("study ") for part in parts if part.startswith("study "))
    tests = tuple(part.removeprefix("test ") for part in parts if part.startswith("test "))
    reasons = [part for part in parts if not part.startswith(("study ", "test "))]
    return Item(paper, name, shows, studies, tests, "; ".join(reasons))


CONTINUOUSNET = _items(
    "C",
    ("Fig 1", "one weight function, many graphs", f"study one-net; study solvers; {_SKETCH} beyond these"),
    ("Fig 2", "nomenclature", "a list of symbols: nothing to run"),
    ("Fig 3", "pendulum: trajectories at the sampling rate and at twice it", "study pendulum"),
    ("Fig 4", "pendulum: error against the step, and with other integrators", "study pendulum"),
    ("Fig 5", "units of higher-order schemes", "test test_schemes.py; test test_block.py"),
    ("Fig 6", "the image network", "test test_units.py; test test_recipes.py"),
    (
        "Table 1",
        "accuracies on CIFAR-10 (a) and CIFAR-100 (b), inference times",
        "study full-scale; study solvers; not run at full size: days of a GPU",
    ),
    ("Fig 7", "time, accuracy and loss over training with refinement", "study refinement"),
    ("Fig 8", "weights over depth, at each stage and at the end", "study refinement; study weights"),
    (
        "Fig 9",
        "test error against steps and schemes, CIFAR-10 and CIFAR-100",
        "study solvers; CIFAR-100: its printed rows in `full-scale`, the curves not run: days of a GPU",
    ),
    ("Fig 10", "Tiny-ImageNet with Euler and midpoint", "study full-scale; not run: data not here, days of a GPU"),
    ("Fig 11", "without skip-init: CIFAR-10, CIFAR-100, twice as deep", "study full-scale; not run: days of a GPU"),
    ("C.1", "R is a pure function; uniform grid", "test test_block.py; test test_grids.py"),
    ("C.2", "orders, consistency and convergence of four schemes", "test test_schemes.py; test test_integration.py"),
    ("C.3", "closed form of the pendulum", "study pendulum; test test_data_made.py"),
    ("C.4", "at half of the sampling step the Euler net is worse, RK4 and midpoint nets are not", "study pendulum"),
    ("C.5", "slopes and floor of the error, the dip of every net, integrators exchanged", "study pendulum"),
    ("C.6", "Euler with M = N and scale = N is a ResNet", "test test_resnet_law.py"),
    ("C.7", "parameter counts, also while refining", "test test_units.py; test test_recipes.py"),
    ("C.8", "skip-init starts as the identity", "test test_units.py"),
    ("C.9", "batch norm per interval, copied at refinement", "test test_state.py; test test_surgery.py"),
    ("C.10", "refinement of steps, scheme and weights", "test test_surgery.py; test test_transfer.py"),
    ("C.11", "time with refinement, at fixed depth and with Euler", "study refinement"),
    ("C.11", "RK4 with and without refinement are alike in accuracy (footnote 6)", "study refinement"),
    ("C.11", "settings tuned on coarse nets carry over to deep ones", "not run: needs a search at every depth"),
    ("C.12", "dips at harmonics of the trained N", "study solvers"),
    (
        "C.13",
        "the printed accuracies, also of RK4 nets run with Euler and with RK4-3/8 and fewer steps",
        "study full-scale; study solvers; not run at full size: days of a GPU",
    ),
    ("C.14", "more stable under perturbations of the inputs (section 5.1)", "study noise"),
    ("C.15", "adjoint gradients need N >= 3M", "study adjoint-steps; test test_gradients.py"),
    ("C.15", "bottleneck, wide and grouped units; blocks that differ", "test test_units.py; test test_surgery.py"),
    ("C.16", "training settings of the authors' scripts", "test test_recipes.py"),
)

_FIXED_STEPS = "trained at one number of steps, tested at others"
_DEAR = "not run: about 6 h a run here on MNIST and 13 h on CIFAR-10, and the figure has dozens of runs"

PROPER_ODES = _items(
    "P",
    ("Fig 1", "trajectories that cross and that do not", "study crossings"),
    ("Fig 2", "the synthetic datasets", "test test_data_made.py"),
    ("Fig 3", f"spheres and landscape: {_FIXED_STEPS}", "study proper-grid"),
    ("Fig 4", f"MNIST and CIFAR-10: {_FIXED_STEPS}", _DEAR),
    ("Table 1", "evaluations and accuracy: grid search against Algorithm 1", "study adaption; study adaption-full"),
    (
        "Fig 5",
        "test accuracy and steps during adaption, MNIST and CIFAR-10",
        "study history; study adaption-mnist; for spheres and three minima; over training on MNIST and CIFAR-10 the "
        "test accuracy is not run: cost",
    ),
    ("Fig 6", "other solvers during adaption", "study history"),
    *((f"Fig {n}", f"spheres, d = 2, each number of steps: {_FIXED_STEPS}", "study proper-grid") for n in (7, 8, 9)),
    *((f"Fig {n}", f"landscape, each number of steps: {_FIXED_STEPS}", "study proper-grid") for n in (10, 11, 12)),
    *((f"Fig {n}", f"MNIST, each number of steps: {_FIXED_STEPS}", _DEAR) for n in (13, 14)),
    *((f"Fig {n}", f"CIFAR-10, each number of steps: {_FIXED_STEPS}", _DEAR) for n in (15, 16)),
    ("Fig 17", f"spheres, d = 3: {_FIXED_STEPS}", "study spheres"),
    ("Fig 18", f"spheres, d = 10: {_FIXED_STEPS}", "study spheres"),
    ("Fig 19", f"spheres, d = 900: {_FIXED_STEPS}", "study spheres; not run: cost"),
    ("Fig 20", "Fehlberg 2(1): tolerances in training and test", "study tolerances"),
    ("Fig 21", "Dormand-Prince 5(4): tolerances in training and test", "study tolerances"),
    ("Fig 22", "true and learnt fields of the landscape, 256 steps", "study fields"),
    ("P.1", "autonomous field, linear classifier, no upstream block", "test test_recipes.py"),
    ("P.2", "fixed and adaptive solvers", "test test_schemes.py; test test_adaptive.py"),
    ("P.3", "concentric spheres in any dimension", "test test_data_made.py"),
    ("P.4", "particle in a potential, any number of minima", "test test_paper_data.py"),
    ("P.5", "the crossing test itself", "study verdicts; test test_measure.py"),
    ("P.6", "accuracy at the training step does not depend on it", "study proper-grid; study rates"),
    ("P.7", "Algorithm 1 is robust against its constants; its first step is not too small", "study constants"),
    ("P.8", "the printed evaluations and accuracies of Table 1", "study adaption-full; not run for images: cost"),
    ("P.9", "tolerances play the part of the step", "study tolerances"),
    ("P.10", "the four architectures", "test test_recipes.py"),
    ("P.11", "which solver checks, growth is checked again, h <= 1, the last step is cut", "test test_control.py"),
    ("P.12", "future work: no oscillation of the step", "study adaption; study adaption-full"),
    ("P.12", "future work: Algorithm 1 for adaptive solvers", "study tolerances"),
)

STATEFUL = _items(
    "S",
    ("Fig 1", "continuous transformer, attention over depth", "study tagging"),
    ("Fig 2", "a projected weight", "study tagging"),
    ("Fig 3", "RK4 compresses better than Euler", "study schemes-compress"),
    ("Fig 4", "accuracy against K per basis, and against N", "study compression"),
    ("Fig 5", "tagging: accuracy against K and against N", "study tagging"),
    ("Fig 6", "German-HDT: the same", "study tagging; not run: the treebank is not here, days of two cores"),
    ("Table 1", "properties of other models", "a comparison in words: nothing to run"),
    ("Table 2", "MNIST: compression and accuracy", "study mnist; study full-scale"),
    ("Table 3", "CIFAR-10, shallow", "study full-scale; study compression"),
    ("Table 4", "CIFAR-10, deep: c1 against c2", "study full-scale; study basis-schedule"),
    ("Table 5", "CIFAR-100: c1 against c2", "study full-scale; not run: days of a GPU"),
    ("Table 6", "architecture for MNIST", "test test_recipes.py"),
    ("Table 7", "shallow architecture for CIFAR-10", "test test_recipes.py"),
    ("Table 8", "deep architecture for CIFAR-10", "test test_recipes.py"),
    ("S.1", "bases", "test test_bases.py"),
    ("S.2", "interpolation and L2 projection", "test test_transfer.py"),
    ("S.3", "state parameters as weight functions (Algorithm 1)", "test test_state.py; test test_resnet_law.py"),
    ("S.4", "compression without data or retraining", "study compression; study mnist; test test_surgery.py"),
    ("S.5", "refinement by interpolation (Algorithm 2)", "test test_transfer.py; test test_surgery.py"),
    ("S.6", "Theorem 1 and Lemma 1", "study theory"),
    ("S.7", "the units and networks, stitches and pools", "test test_units.py; test test_recipes.py"),
    ("S.8", "MNIST: accuracies and parameters, without normalisation too", "study mnist; study full-scale"),
    ("S.9", "CIFAR-10, shallow: accuracies and parameters", "study full-scale; test test_units.py"),
    ("S.10", "basis and schedule as a 2 x 2", "study basis-schedule"),
    ("S.11", "shortening with projection beats shortening alone", "study compression; study mnist; study tagging"),
    ("S.11", "for N <= K, reducing K costs nothing", "study compression; study tagging"),
    ("S.12", "parameters of the tagger", "test test_tagger.py"),
    ("S.13", "higher order trains smaller derivatives", "study derivatives"),
    ("S.13", "training settings; no weight decay on CIFAR-100", "test test_recipes.py"),
    ("S.13", "nets trained on constants in Fig 4a", "study basis-schedule"),
    ("S.13", "inference times of halved nets", "study compression; study mnist"),
)

ANODEV2 = _items(
    "A",
    ("Fig 1", "the two configurations", f"test test_evolved.py; {_SKETCH} beyond that"),
    ("Fig 2", "a signal carried at varying speed", "study wave"),
    ("Fig 3", "a Gaussian under diffusion, advection, reaction", "study gaussians"),
    ("Fig 4", "kernels over depth", "study coupled"),
    ("Fig 5", "kernels over depth", "study coupled"),
    ("Fig 6", "the first 5 x 5 convolution of AlexNet over depth", "study coupled; not run for AlexNet: cost"),
    ("Table 1", "configuration one against baselines", "study coupled"),
    ("Table 2", "configuration two against baselines", "study coupled"),
    ("Table 3", "parameters", "study anode-counts; test test_anode_nets.py"),
    ("Table 4", "Neural ODE, ANODE and configuration two", "study coupled"),
    ("A.1", "coupled system, kernels in time, general q", "test test_evolved.py"),
    ("A.2", "KKT gradients with checkpoints", "test test_evolved.py; test test_gradients.py"),
    ("A.3", "reaction, diffusion, advection by FFT", "study gaussians; test test_evolved.py"),
    ("A.4", "the two configurations and their grids", "test test_evolved.py; test test_anode_nets.py"),
    ("A.5", "q = 0 is a Neural ODE; a network q is a hypernetwork", "test test_evolved.py"),
    ("A.6", "averages of five runs on CIFAR-10", "study coupled; not run at full size: days of a GPU"),
    ("A.7", "parameter counts of the printed nets", "study anode-counts"),
    ("A.8", "pictures of kernels over depth; a Gaussian's evolution", "study coupled; study gaussians"),
    ("A.9", "the wave equation with one layer, against ANODE", "study wave"),
    ("section 4", "evolving the weights costs little time", "study evolving-cost"),
    ("A.10", "more steps or higher order do not help; evolving does", "study more-steps"),
)

OURS = _items(
    "ours",
    ("one net", "one net for every budget, against a net for each", "study one-net"),
    ("any depth", "training for every depth at once", "study any-depth; study any-depth-cifar10"),
    (
        "smoothing",
        "trained stacks made fit for other depths",
        "study smoothing; study smoothing-cifar10; study smoothing-campaign; study smoothing-tagging",
    ),
    ("anytime", "depth per example, with a tested bound on what it loses", "study anytime"),
    ("verdicts", "`anydepth check` on models whose verdict is known beforehand", "study verdicts"),
)

COVERAGE = {"C": CONTINUOUSNET, "P": PROPER_ODES, "S": STATEFUL, "A": ANODEV2, "ours": OURS}
"""By paper."""
