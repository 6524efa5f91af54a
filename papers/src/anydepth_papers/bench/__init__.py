"""Side by side with other code that does the same: time, with its spread, and peak memory."""
