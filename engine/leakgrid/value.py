"""``value``: dataclasses that nobody may change, without what freezing costs.

A frozen dataclass sets each of its fields through ``object.__setattr__``, ten times as slow as
setting it. A call makes about ten values with seventy fields in all, which is a twelfth of what
the engine itself spends on it. So the type checker alone enforces that they are frozen: to it,
``value`` is ``dataclass``. Values that are made once per file, job or report are frozen as usual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as value
else:
    from dataclasses import dataclass

    def value(*, frozen: bool, slots: bool, kw_only: bool = False) -> Any:
        """As ``dataclass``: equal and hashed by its fields; ``frozen`` is the type checker's."""
        return dataclass(slots=slots, kw_only=kw_only, unsafe_hash=frozen)


__all__ = ["value"]
