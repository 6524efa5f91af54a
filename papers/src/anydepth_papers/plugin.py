"""What this package adds to anydepth, by kind of part; imported when such a part is looked up."""

PARTS = {
    "command": "anydepth_papers.commands",
    "dataset": "anydepth_papers.data",
    "model": "anydepth_papers.models",
    "net": "anydepth_papers.shipped",
    "recipe": "anydepth_papers.recipes",
    "unit": "anydepth_papers.units",
}
LISTS = {"reproductions": "anydepth_papers.experiments:EXPERIMENTS"}
