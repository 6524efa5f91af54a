"""Units, models and the layers that they share."""
