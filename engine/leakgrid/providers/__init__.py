"""Providers: one request body in, one answer out, whoever answers."""
