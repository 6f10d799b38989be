"""The half-price tier: calls collected into files, sent as batches, harvested as answers."""
