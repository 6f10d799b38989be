"""Speed, as ratios against peers in the same run on the same server (``just bench``)."""
