"""leakgrid: ask many language models many questions about privacy, and trust the table."""

__version__ = "0.1.0"
