"""Changes that several studies share."""

from anydepth_papers.judge.experiment import Change

FIRST, SECOND, THIRD = "2026-11-16", "2026-11-18", "2026-11-19"


def new_rules(before: str) -> Change:
    """The change that all studies share."""
    return Change(
        SECOND,
        "All verdicts by one set of rules.",
        "Rules differed from study to study, and a mean within noise could count as holding.",
        f"{before}; see changed-verdicts.md.",
    )


def depth_gate(claims: str, before: str) -> Change:
    """The control for depth where a study had none."""
    return Change(
        THIRD,
        f"{claims} decide something only if the net is more than 5 points above a net of depth 1 that was trained from "
        "scratch, as in the other studies.",
        "A net that does not use its depth loses nothing at another one.",
        before,
    )


CAMPAIGN = Change(
    SECOND,
    "At cpu scale the study looks at nets that train on 45,000 images for 27 epochs with 16-32-64 channels, on all "
    "10,000 test images, each form as it is and recalibrated, instead of 2,000 images, 8 epochs, 8-16 channels and "
    "the first 800 test images.",
    "The small nets had not learnt their task. Their Euler net was grown, which C section 5.1 does not do: it starts "
    "at its final depth now.",
    "The small nets had 36.1 % (RK4), 35.2 % (Euler), 39.1 % (ResNet), 37.0 % (hats, RK4) and 37.7 % (hats, Euler).",
)
