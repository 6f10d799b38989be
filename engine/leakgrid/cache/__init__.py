"""Answers by content hash: keys, journals, segments, single-flight."""
