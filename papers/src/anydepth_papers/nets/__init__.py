"""The nets that studies train or take from the campaign."""
