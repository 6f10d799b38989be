"""Jobs: a file becomes a plan, a plan becomes cells, cells run in one task group."""
