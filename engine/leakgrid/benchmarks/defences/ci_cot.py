"""``ci-cot``: one call that reasons over who tells what to whom before it answers.

ConfAIde (arXiv 2310.17884) asks for such reasoning and finds that it alone helps little; the
four questions are those of contextual integrity (sender, recipient, kind of information, rule).
"""

from __future__ import annotations

from leakgrid.benchmarks.defences import marked

VERSION = 1
PROMPTS = {"order": ("marker",), "form": ("marker",)}
STYLE = False
MARKED = True

reply = marked.reply
