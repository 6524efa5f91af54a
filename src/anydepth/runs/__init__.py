"""Run folders: config, record, metrics, lock, progress, checkpoints."""
