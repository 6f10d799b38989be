"""Defences: what is done so that the assistant discloses less."""
