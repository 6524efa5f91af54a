"""Claims that were put into other words: the earlier sentences and the present ones, by study."""

_HALF_STEP = "when its step is halved"
_WAVES = ("exp(-t)", "t", "sin(pi t)")
_LAYERS = {
    "reaction": "reaction",
    "reaction, diffusion, advection": "reaction, diffusion, advection",
    "linear map": "a linear map",
}
_EACH, _THIS = "(each trained net, 10,000 test images)", "(this net, 10,000 test images)"


_ALGORITHM_1 = {
    "Algorithm 1 finds the steps and the accuracy of a grid search": (
        "Algorithm 1 needs at most 1.5 times the evaluations of the grid's coarsest proper net and is at most 3 points "
        "less accurate"
    ),
    "Algorithm 1 ends with an ODE": "at least 90 % of all nets trained by Algorithm 1 end as proper ODEs",
    "the number of steps fluctuates to the end": (
        "the number of steps changes more than 5 times in the last half of the training"
    ),
    "a controller without oscillation": (
        "`steady` is at most 1 point less accurate than the grid's most accurate proper run"
    ),
}
"""Claims of Table 1 on every dataset; that of the controller became three."""
_GRID = {
    "a net trained with few steps loses sharply under a more accurate solver": (
        "with the fewest Euler steps, a more accurate solver changes the accuracy by more than 10 points"
    ),
    "there is a step size below which more accurate solvers change nothing": (
        "with the most Euler steps, more accurate solvers change it by at most 10 points"
    ),
    "accuracy with the solver of the training does not depend on its step": (
        "over all numbers of Euler steps, the accuracy with the solver of the training has a trend of at most 10 points"
    ),
    "a net that is an ODE is as accurate with the solver of its training as one that is not quite": (
        "nets just finer and just coarser than critical differ by at most 3 points of accuracy, each with the solver "
        "of "
        "its training"
    ),
    "the critical step of RK4 is larger than Euler's": "the critical step of RK4 is larger than Euler's",
}
_WHERE = {"spheres, d = 2": "1/64 to 1/128", "three minima": "1/32 to 1/64"}
_AS_PUBLISHED = "the critical step of Euler's method is as published, to a factor of two"
_EVALUATIONS = "the evaluations of Algorithm 1 are as published, to a factor of 2"


def _of(title: str, sentences: dict[str, str], now: str | None = None) -> dict[str, str]:
    """Claims about one dataset, which may have another title now."""
    return {f"{title}: {old}": f"{now or title}: {new}" for old, new in sentences.items()}


_FULL_SIZE = {
    "ContinuousNet (RK4), CIFAR-10": ("", 0.17),
    "ContinuousNet (Euler), CIFAR-10": ("", 0.29),
    "ResNet-200, CIFAR-10": ("", 0.28),
    "ContinuousNet (RK4), CIFAR-100": ("", 0.31),
    "the same run with RK4-3/8 and 4 steps": ("CIFAR-100 RK4 net, RK4-3/8, N = 4", 0.5),
    "ContinuousNet (Euler), CIFAR-100": ("", 0.85),
    "Wide-ResNet, CIFAR-100": ("", 0.37),
    "ContinuousNet (midpoint), Tiny-ImageNet": ("Tiny-ImageNet, midpoint", 2),
    "constants, MNIST": ("", 0.2),
    "compressed to 4 constants and steps": ("", 0.2),
    "compressed to 2 constants and steps": ("", 1.2),
    "without normalisation, MNIST": ("", 0.2),
    "constants, shallow, CIFAR-10": ("", 0.3),
    "compressed to 4": ("shallow, compressed to 4", 0.4),
    "shallow without normalisation": ("", 0.5),
    "hats, refined, CIFAR-10 (c1)": ("", 0.6),
    "compressed to 9 hats, 8 steps": ("c1 compressed to 9 hats, 8 steps", 0.7),
    "constants, not refined, CIFAR-10 (c2)": ("", 0.3),
    "hats, refined, CIFAR-100 (c1)": ("", 0.7),
    "compressed to 5 hats, 4 steps": ("c1 compressed to 5 hats, 4 steps", 0.4),
    "constants, not refined, CIFAR-100 (c2)": ("", 0.8),
}
"""Rows of the papers' tables: another title, where it has one, and the margin that was not stated before."""


RENAMED: dict[str, dict[str, str]] = {
    "adaption": _of("spheres, d = 2", _ALGORITHM_1) | _of("three minima", _ALGORITHM_1),
    "adaption-full": _of("spheres, d = 2", _ALGORITHM_1)
    | _of("three minima", _ALGORITHM_1)
    | {
        "spheres, d = 2: Algorithm 1 needs 100.5 evaluations per iteration": f"spheres, d = 2: {_EVALUATIONS}",
        "three minima: Algorithm 1 needs 43.3 evaluations per iteration": f"three minima: {_EVALUATIONS}",
    },
    "basis-schedule": {
        "Refined hats lose far less than constants of fixed depth when halved": (
            "Halved in functions and steps, refined hats lose fewer points than constants of fixed depth (over seeds)"
        ),
        "It is the basis as well as the schedule that helps": (
            "Hats alone save points with half of the functions, over both schedules (over seeds)"
        ),
    },
    "compression": {
        "Half of the functions and steps, without data or retraining: at most 1 point is lost": (
            f"Half of the functions and steps, without data or retraining: at most 1 point lost {_EACH}"
        ),
        **{
            sentence: f"{sentence} {_EACH}"
            for sentence in (
                "Trained on hats, constants are the better basis to project onto",
                "Projection beats interpolation",
            )
        },
        **{
            f"Fewer steps of {old} with projection to K = N beat fewer steps alone": (
                f"Fewer {new} steps with projection to K = N constants beat fewer steps alone {_EACH}"
            )
            for old, new in (("rk4", "RK4"), ("euler", "Euler"))
        },
    },
    "coupled": {
        "ResNet-4: Evolving helps: configuration two beats ANODE with as many steps": (
            "ResNet-4: Configuration two beats ANODE with as many steps"
        ),
    },
    "crossings": {
        "Trajectories cross with large steps at least 100 times as often as with small ones": (
            "These nets: trajectories cross at least 100 times as often with h = 1/8 as with h = 1/256"
        ),
    },
    "fields": {
        "The sinks of the true field are absent from the learnt one": (
            "The true field has a sink at each of its three minima, a learnt one at most 1 on average"
        ),
    },
    "full-scale": {
        **{
            f"{old}: this accuracy": f"{now or old}: this accuracy, within {margin:g} points"
            for old, (now, margin) in _FULL_SIZE.items()
        },
        "c1 without normalisation: no better than this": "c1 without normalisation: this accuracy, within 0.5 points",
        "less accurate without skip-init": "CIFAR-10, RK4: less accurate without skip-init",
        "twice as deep, half as wide": (
            "CIFAR-100, 32-64-128 channels, N = 16, without skip-init: RK4 with half the steps loses at most 2 points"
        ),
    },
    "gaussians": {
        "One FFT step evolves a kernel exactly, for any time": (
            "One FFT step evolves a kernel exactly over any time, in float32 and in float64"
        ),
    },
    "mnist": {
        "MNIST with 12 channels, grown with RK4: 99.4 %": (
            f"MNIST, 12 channels, grown with RK4: at least the paper's lowest accuracy {_THIS}"
        ),
        "Half of the basis functions and steps cost little": (
            f"MNIST, half of the functions and steps: at most 0.3 points lost {_THIS}"
        ),
        "The trained net runs with other schemes and step counts": (
            f"Euler, midpoint and RK4-3/8 with 4 or 8 steps lose at most 0.5 points each {_THIS}"
        ),
        "The blocks do the work": "",
        "A net trained with Euler at fixed depth does not compress": (
            f"Halved as they are, hats lose less than a ResNet with half of its units in its best form {_THIS}"
        ),
        "Projection beats interpolation": f"Half of the functions: projection beats interpolation {_THIS}",
        "Shortening with projection to K = N constants beats shortening alone": (
            f"Fewer Euler steps with projection to K = N constants beat fewer steps alone {_THIS}"
        ),
    },
    "more-steps": {
        "More steps or a higher order do not help where kernels stay": (
            "With kernels that stay, 2 or 5 Euler steps are at most 1 point above one"
        ),
        "Kernels that evolve mend that": "With kernels that evolve, 5 Euler steps are better than one",
    },
    "noise": {
        f"ContinuousNet (RK4) loses less under noise than {other}": (
            f"ContinuousNet (RK4) loses fewer points under noise than {other}, over seeds"
        )
        for other in ("ContinuousNet (Euler)", "ResNet")
    },
    "pendulum": {
        "The nets fit the trajectory at the sampling rate to a global error near 1e-4": (
            "At the step of the data every net has a global error of at most 1e-3"
        ),
        f"The Euler net gets worse {_HALF_STEP}": "With half the step the Euler net has at least 10 times the error",
        f"The RK4 net stays accurate {_HALF_STEP}": "With half the step the RK4 net has at most twice the error",
        f"The midpoint net stays accurate {_HALF_STEP}": (
            "With half the step the midpoint net has at most twice the error"
        ),
        "A midpoint net run with RK4 gains orders of magnitude at large steps": (
            "Run with RK4 the midpoint net has at most a tenth of its error at every step above 2 dt"
        ),
        "An Euler net run with another scheme is useless": (
            "Run with midpoint or RK4 the Euler net has at least 10 times its error at the step of the data"
        ),
        "The numerical integrators converge with their orders": (
            "The numerical integrators converge with their orders, within 0.15"
        ),
    },
    "proper-grid": {
        **_of("spheres, d = 2", _GRID),
        **{f"three minima: {old}": "" for old in _GRID},
        **_of("three minima, trained in full", _GRID, "three minima"),
        f"spheres, d = 2: the critical step of Euler's method is near {_WHERE['spheres, d = 2']}": (
            f"spheres, d = 2: {_AS_PUBLISHED}"
        ),
        f"three minima: the critical step of Euler's method is near {_WHERE['three minima']}": "",
        f"three minima, trained in full: the critical step of Euler's method is near {_WHERE['three minima']}": (
            f"three minima: {_AS_PUBLISHED}"
        ),
    },
    "rates": {
        "three minima: accuracy with the solver of the training does not depend on its step, once the learning rate is "
        "chosen for every step": (
            "three minima: with a learning rate chosen for every number of Euler steps, accuracy has a trend of at "
            "most "
            "10 points over all of them"
        ),
        "three minima: a trend at one learning rate is due to that rate": (
            "three minima: choosing the learning rate for every number of steps takes more than half of the trend away"
        ),
        "three minima, rates chosen: there is a step size below which more accurate solvers change nothing": (
            "three minima, rates chosen: with the most Euler steps, more accurate solvers change it by at most 10 "
            "points"
        ),
    },
    "refinement": {
        "Refinement training saves time": "Refinement training takes less time than fixed depth, over seeds",
        "It takes at most 1.1 times what the evaluations of the unit predict": (
            "It takes at most 1.1 times the time that the evaluations predict, over seeds"
        ),
        "and costs no accuracy": "Refinement costs at most 0.5 points of accuracy, over seeds",
        "A later schedule needs at most 0.35 of the time at the same accuracy": (
            "A later schedule takes at most 0.35 of the time and costs at most 0.5 points, over seeds"
        ),
        "A refinement alone hardly changes the loss": (
            "A refinement alone changes the validation loss by at most 10 %, over seeds"
        ),
        "Accuracy and loss improve immediately after refinement": (
            "In the epoch after a refinement the training loss is lower than that of the same net not refined, over "
            "seeds"
        ),
    },
    "schemes-compress": {
        f"Trained with RK4 a net loses less at {old} than with Euler": (
            f"Trained with RK4 a net loses less with half and a quarter of the {new} than with euler (over seeds)"
        )
        for old, new in (
            ("half of K", "functions"),
            ("a quarter of K", "functions"),
            ("half of K and N", "functions and steps"),
            ("a quarter of K and N", "functions and steps"),
        )
    },
    "solvers": {
        "Trained with RK4, run with Euler: at most 1 point is lost": (
            "Each RK4 net run with Euler at its own N is at most 1 point below itself (instance)"
        ),
        "RK4-3/8 with a third of the steps: at most 1 point is lost": (
            "Each RK4 net run with RK4-3/8 and a third of its steps is at most 1 point below itself (instance)"
        ),
        "RK4-3/8 with a fifth of the steps: at most 3 points are lost": (
            "Each RK4 net run with RK4-3/8 and a fifth of its steps is at most 3 points below itself (instance)"
        ),
        "Fewer steps save time in proportion, to a quarter": (
            "Time falls in proportion to the steps, within a quarter, over seeds"
        ),
        "In another depth ContinuousNet (Euler) loses more than ContinuousNet (RK4)": (
            "In another depth the Euler net loses more than the RK4 net, over seeds"
        ),
        "In another depth ResNet loses more than ContinuousNet (RK4)": (
            "In another depth a ResNet with stretched steps loses more than the RK4 net, over seeds"
        ),
        "ContinuousNet (Euler) run with RK4 loses more than ContinuousNet (RK4) run with Euler": (
            "The Euler net run with RK4 loses more than the RK4 net run with Euler, over seeds"
        ),
    },
    "tagging": {
        "The continuous transformer tags better than counting words": (
            "The continuous transformer tags better than counting words does (this net)"
        ),
        "Half of the basis functions cost almost nothing": (
            "Half of the basis functions: at most 0.5 points lost (this net)"
        ),
        "One function saves nearly all of the block, at a loss of accuracy": "One function loses accuracy (this net)",
        "Constants beat hats as the target of projection": (
            "Constants are better than hats to project onto, on average over K (this net)"
        ),
        "Discontinuous pieces do about as well as constants": (
            "Discontinuous lines do as well as constants, to 0.5 points on average over K (this net)"
        ),
        "Shortening with projection to K = N beats shortening alone": (
            "Shortening with projection to K = N beats shortening alone, on average over N (this net)"
        ),
    },
    "theory": {
        "A scheme's solution is the true one plus h^p times a smooth function, to leading order": (
            "A scheme's solution is the true one plus h^p times a smooth function, to leading order (random nets of "
            "width 4)"
        ),
    },
    "tolerances": {
        f"{scheme}: {old}": f"{scheme}: {new}"
        for scheme in ("fehlberg21", "dopri54")
        for old, new in (
            (
                "a net trained with a loose tolerance depends on it",
                "trained with the loosest tolerance, tighter ones change the accuracy by more than 10 points",
            ),
            (
                "trained with a tight one, it does not",
                "trained with the tightest tolerance, tighter ones change it by at most 10 points",
            ),
        )
    },
    "verdicts": {
        **{
            f"Every model that is {kind} for a reason known beforehand is judged so": (
                f"every field in closed form that is {kind} is judged so, and so are at least 90 % of all trained nets "
                f"that are {kind} for a reason known beforehand"
            )
            for kind in ("proper", "tied")
        },
        "A model is judged proper where its outputs are those of the exact flow, and only there": (
            "a model is judged proper where its outputs are those of the exact flow, and only there: every field in "
            "closed form, at least 90 % of all trained nets"
        ),
        "The critical step of RK4 is larger than that of Euler's method": (
            "the critical step of RK4 is larger than that of Euler's method: a turn of 6 rad"
        ),
        "Trajectories of a tied model cross, those of a proper one do not": (
            "trajectories of a tied field cross, those of proper ones do not: more than 1 % of pairs, less than 0.5 %, "
            "fields in closed form"
        ),
    },
    "wave": {
        f"Wave with c(t) = {speed}: one layer that evolves by {layer} beats one that does not": (
            f"Wave with c(t) = {speed}: a layer that evolves by {now} has at most half the error of ANODE"
        )
        for speed in _WAVES
        for layer, now in _LAYERS.items()
    },
    "weights": {
        "RK4 with refinement gives smoother weights than Euler at fixed depth, a ResNet": (
            "RK4 with refinement gives smoother weights than a ResNet has, over seeds"
        ),
        "RK4's weights are smoother than Euler's where both are refined": "",
        "Refinement alone, with Euler, does that too": "",
    },
}
"""An empty sentence: the claim was dropped."""
MOVED: dict[str, tuple[str, str]] = {
    "MNIST: ": ("adaption", "adaption-mnist"),
    "Algorithm 1 is robust": ("adaption", "constants"),
}
"""Claims that begin so moved from one study to another."""
