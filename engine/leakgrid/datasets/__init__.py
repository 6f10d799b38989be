"""Datasets room: files in, Items out."""
