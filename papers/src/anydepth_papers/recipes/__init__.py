"""Settings of the papers' trainings."""
