"""MuPPET: an assistant speaks for one person in a group chat (arXiv 2606.23217)."""
