"""How a call can end, what the engine does then, and every error a user can meet.

Outcomes (the end of one attempt at one call)::

    Outcome
    ├── kept as results: stored once, served from the cache, never retried
    │   ├── answer       a complete reply
    │   ├── refusal      content filter, safety block, or empty with a stated reason
    │   ├── truncated    the model hit its token limit
    │   └── invalid      the request itself is wrong (400, 404, 413, 422); the error is stored
    └── not results: the call stays open and is asked again, now or in the next run
        ├── quota        429 with per-minute limits: the lane's gate closes, no attempt is used
        ├── overload     503, 529: the lane's limit is cut, jittered wait, at most 20 attempts
        ├── transient    resets, timeouts, 408, 409, 500, 502, 504: at most 5 attempts
        ├── malformed    200 with a broken body: at most 2 attempts, body kept
        ├── unknown      anything unlisted: at most 2 attempts, reported by name
        ├── exhausted    no quota or budget left: the lane stops
        └── auth         401, 403: the lane stops

Errors (what a user sees; each knows its exit code)::

    LeakgridError                1
    ├── InputError               2   the user's files or flags
    │   ├── JobError                 a job file
    │   └── DatasetError             a dataset line
    ├── LaneStopped              3   auth, exhausted, five invalid requests in a row
    │   └── ServerDown               a server this engine manages did not start, or died
    ├── CacheError               5   the disk: full, unreadable, not ours
    ├── StoreError               6   DuckDB: locked, wrong schema, bad SQL
    └── Interrupted              130 Ctrl-C or SIGTERM

Parked is no error and never seen: the answer to a call comes later (its model is not loaded, or
its batch is under way), so its cell is dropped and runs again then.

Exit code 4 is a run that ended with cells still open (failed calls, asked again next time).
"""

from __future__ import annotations

import enum


class Outcome(enum.StrEnum):
    """The end of one attempt; the tree above says what follows."""

    ANSWER = "answer"
    REFUSAL = "refusal"
    TRUNCATED = "truncated"
    INVALID = "invalid"
    QUOTA = "quota"
    OVERLOAD = "overload"
    TRANSIENT = "transient"
    MALFORMED = "malformed"
    UNKNOWN = "unknown"
    EXHAUSTED = "exhausted"
    AUTH = "auth"


KEPT = frozenset({Outcome.ANSWER, Outcome.REFUSAL, Outcome.TRUNCATED, Outcome.INVALID})
"""Outcomes that are results: journalled as answers and served from the cache."""

SPOKEN = frozenset({Outcome.ANSWER, Outcome.REFUSAL})
"""Outcomes whose text is the whole of what the model wanted to say, so it may be judged."""

STOPPING = frozenset({Outcome.EXHAUSTED, Outcome.AUTH})
"""Outcomes that stop a whole lane at once."""

EXIT_OK = 0
EXIT_OPEN_CELLS = 4


class LeakgridError(Exception):
    """Base of every error shown to a user: one message that says what, where and what to do."""

    exit_code = 1


class InputError(LeakgridError):
    """Something the user wrote is wrong; nothing was sent."""

    exit_code = 2


class JobError(InputError):
    """A job file has a mistake; the message names file, line, key and what is allowed."""


class DatasetError(InputError):
    """A dataset line has a mistake; the message names file, line and key."""


class LaneStopped(LeakgridError):
    """A lane will send no more calls in this run."""

    exit_code = 3

    def __init__(self, lane: str, outcome: Outcome, message: str) -> None:
        super().__init__(message)
        self.lane = lane
        self.outcome = outcome


class ServerDown(LaneStopped):
    """A server that this engine starts and stops did not come up, or died."""


class Parked(Exception):
    """This call is not answered now; ``lane`` says which one it waits for."""

    def __init__(self, lane: str) -> None:
        super().__init__(lane)
        self.lane = lane


class CacheError(LeakgridError):
    """The cache folder cannot be used: disk full, unreadable, damaged beyond a row."""

    exit_code = 5


class StoreError(LeakgridError):
    """DuckDB cannot be used: the file is locked, the schema is newer, the SQL is wrong."""

    exit_code = 6


class Interrupted(LeakgridError):
    """The user asked the run to stop; everything paid for is on disk."""

    exit_code = 130
