"""``privacy-checker``: one call that lists every flow of information and rules on each.

After PrivacyChecker (arXiv 2509.17488), as MuPPET uses it (arXiv 2606.23217): the section on form
becomes a gate, and the message follows a marker.
"""

from __future__ import annotations

from leakgrid.benchmarks.defences import marked

VERSION = 1
PROMPTS = {"order": ("marker",), "form": ("marker",)}
STYLE = False
MARKED = True

reply = marked.reply
