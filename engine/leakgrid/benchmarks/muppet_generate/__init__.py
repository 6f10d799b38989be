"""Writing new MuPPET items with a model: a plan in code, two drafts, checks, and a judge."""
