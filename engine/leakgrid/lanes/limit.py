"""How many calls of a lane may be in flight.

A lane with a quota gets Little's law: rate times latency, with room to spare, so that the
quota binds and the limit does not. A lane without one is probed: grow while growing pays, cut
when the server says it is overloaded. Three clocks are kept apart on purpose: how often a cut
may happen, how often growth is considered, and (in the lane) how long the server asked to wait.
"""

from __future__ import annotations

from collections import deque

GROW_WINDOW_S = 0.2
CUT_DEBOUNCE_S = 1.0
CUT = 0.8
PAYS = 1.05
PROBE_AGAIN = 20
ROOM = 1.3
ASSUMED_LATENCY_S = 5.0


class Latency:
    """Recent latencies in seconds, for a mean and a high quantile.

    Many are added for each time that one is asked for, so they are sorted then.
    """

    __slots__ = ("_recent", "mean")

    def __init__(self, mean: float = 0.0) -> None:
        self.mean = mean
        self._recent: deque[float] = deque(maxlen=200)

    def add(self, seconds: float) -> None:
        """Note one completed call."""
        self.mean = seconds if self.mean == 0 else 0.95 * self.mean + 0.05 * seconds
        self._recent.append(seconds)

    def quantile(self, share: float) -> float:
        """The latency that ``share`` of recent calls stayed below; 0 before the first call."""
        if not self._recent:
            return self.mean
        return sorted(self._recent)[min(len(self._recent) - 1, int(share * len(self._recent)))]


class Limit:
    """The limit itself: ``allowed`` calls at once, at most ``most``."""

    __slots__ = (
        "_best", "_cut_at", "_done", "_held", "_last", "_saturated", "_since", "_slow_start",
        "_steered", "_value", "most",
    )  # fmt: skip

    def __init__(self, start: float, most: int, now: float) -> None:
        self.most = most
        self._value = float(min(start, most))
        self._slow_start = True
        self._cut_at = -1e9
        self._since = now
        self._done = 0
        self._saturated = False
        self._best = 0.0
        self._last = 0.0
        self._held = 0
        self._steered = False

    @property
    def allowed(self) -> int:
        """Calls that may be in flight now."""
        return max(1, int(self._value))

    def saturated(self) -> None:
        """A call had to wait for a slot: only then is growth worth considering."""
        self._saturated = True

    def completed(self, latency_mean: float, now: float) -> None:
        """A call came back well; at the end of a window decide whether to grow."""
        self._done += 1
        window = now - self._since
        if window < GROW_WINDOW_S or window < 1.5 * latency_mean:
            return
        rate = self._done / window
        if self._saturated and self._value < self.most and not self._steered:
            self._consider(rate)
        self._since, self._done, self._saturated = now, 0, False

    def _consider(self, rate: float) -> None:
        if rate > self._best * PAYS:
            self._best, self._held = rate, 0
        else:
            # More in flight brought no more answers: stay, and only ask again after a while.
            self._held += 1
            if self._held % PROBE_AGAIN:
                self._slow_start = False
                return
            self._best = rate
        step = self._value if self._slow_start else max(1.0, 0.05 * self._value)
        self._value = min(float(self.most), self._value + step)

    def overloaded(self, now: float) -> None:
        """The server is overloaded: cut, but once for a whole burst of such answers."""
        self._slow_start = False
        self._best = 0.0
        if now - self._cut_at >= CUT_DEBOUNCE_S:
            self._cut_at = now
            self._value = max(1.0, self._value * CUT)

    def steer(self, value: float) -> None:
        """Take the limit from one who sees the server itself; from then on do not probe."""
        self._steered = True
        self._value = min(float(self.most), max(1.0, value))

    def follow_rate(self, per_second: float, latency_p95: float) -> None:
        """Little's law for a lane whose quota allows ``per_second`` calls."""
        latency = latency_p95 or ASSUMED_LATENCY_S
        self._value = min(float(self.most), max(2.0, ROOM * per_second * latency + 1))
