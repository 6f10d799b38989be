"""Judges: what a reply discloses. A verdict is leaked, not leaked, or unknown."""
