"""A net of the campaign in small."""

from anydepth.runs.config import ModelSettings, read_config
from anydepth_papers.campaign.declared import Net


class Tiny(Net):
    """A net of the campaign in small."""

    def config(self):
        return read_config(
            {
                "seed": self.seed,
                "threads": 1,
                "checkpoint_minutes": 0,
                "data": {"name": "digits", "validation": 100, "limit": 200},
                "model": self.model.model_dump(),
                "optimizer": {"name": "sgd", "lr": 0.1},
                "training": {"epochs": 4, "batch": 50},
            }
        )


def tiny(title="tiny"):
    options = {"channels": [4], "pool": 4, "layers": 2, "survival": 0.5}
    return Tiny(title, "for tests", ModelSettings(name="resnet", options=options), 0, False)
