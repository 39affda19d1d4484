"""Why a Request is refused: one line that names the field and what would be accepted."""

from __future__ import annotations


class Denial(Exception):
    """A refusal, aimed at the person who wrote the object.

    Args:
        field: the field, e.g. `spec.hardware.gpu.sku`.
        reason: what is wrong with it and what would be right.
    """

    def __init__(self, field: str, reason: str) -> None:
        self.field = field
        self.reason = reason
        super().__init__(f"{field}: {reason}")
