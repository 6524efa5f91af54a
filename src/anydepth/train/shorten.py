"""A config with another number of epochs: what happens at certain epochs moves in proportion."""

from anydepth.runs.config import RunConfig, read_config


def with_epochs(config: RunConfig, epochs: int) -> RunConfig:
    """Trained for so many epochs; growth and falls of the learning rate keep their places in the whole.

    Those that would come together or too late are left out. Of a config in steps of the optimiser, only what counts
    epochs moves, and that is nothing.
    """
    values = config.plain()
    before = config.training.epochs
    values["training"] |= {"epochs": epochs, "steps": None}
    if before is not None:
        for group, name in (("refine", "at"), ("schedule", "milestones")):
            if values[group].get("unit") == "epoch":
                values[group][name] = _moved(values[group].get(name, []), before, epochs)
    return read_config(values, f"--epochs {epochs}")


def _moved(places: list[float], before: int, after: int) -> list[int]:
    moved = {round(place * after / before) for place in places}
    return sorted(place for place in moved if 1 <= place < after)
