"""A simulated provider: a real HTTP server whose models leak by planted truth.

Nothing is imported here, so that the server process starts fast.
"""
