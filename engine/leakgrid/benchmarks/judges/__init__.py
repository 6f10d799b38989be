"""Judges: what a reply discloses, and whether it is useful. Three values: yes, no, unknown."""
