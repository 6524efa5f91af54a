"""The papers' claims, each run by one command and judged; joined to anydepth as a plugin."""
