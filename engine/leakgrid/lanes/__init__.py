"""Lanes: the quotas, concurrency and retries of one provider x account x model."""
