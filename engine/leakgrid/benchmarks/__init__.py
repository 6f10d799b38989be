"""Benchmarks: the programs that cells run. They speak to models through ``ask`` only."""
