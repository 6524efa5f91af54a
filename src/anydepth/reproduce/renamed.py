"""Claims that were put into other words: the earlier sentences and the present ones, by study."""

_HALF_STEP = "when its step is halved"
_WAVES = ("exp(-t)", "t", "sin(pi t)")
_LAYERS = {
    "reaction": "reaction",
    "reaction, diffusion, advection": "reaction, diffusion, advection",
    "linear map": "a linear map",
}

RENAMED: dict[str, dict[str, str]] = {
    "coupled": {
        "ResNet-4: Evolving helps: configuration two beats ANODE with as many steps": (
            "ResNet-4: Configuration two beats ANODE with as many steps"
        ),
    },
    "crossings": {
        "Trajectories cross with large steps at least 100 times as often as with small ones": (
            "Trajectories cross at least 100 times as often with h = 1/8 as with h = 1/256"
        ),
    },
    "fields": {
        "The sinks of the true field are absent from the learnt one": (
            "The true field has a sink at each of its three minima, a learnt one at most 1 on average"
        ),
    },
    "gaussians": {
        "One FFT step evolves a kernel exactly, for any time": (
            "One FFT step evolves a kernel exactly over any time, in float32 and in float64"
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
            "Constants are better than hats to project onto (this net)"
        ),
        "Discontinuous pieces do about as well as constants": (
            "Discontinuous lines do as well as constants, to 0.5 points (this net)"
        ),
        "Shortening with projection to K = N beats shortening alone": (
            "Shortening with projection to K = N beats shortening alone (this net)"
        ),
    },
    "theory": {
        "A scheme's solution is the true one plus h^p times a smooth function, to leading order": (
            "A scheme's solution is the true one plus h^p times a smooth function, to leading order (random nets of "
            "width 4)"
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
