"""Query parameters, read the way the API server reads them."""

from __future__ import annotations

from collections.abc import Sequence

from dynamo_operator.apiserver import status


class Query:
    """The query of a request; of a repeated parameter the first counts."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name, []).append(value)

    def text(self, name: str) -> str:
        """Return a parameter, or ""."""
        return self._values.get(name, [""])[0]

    def texts(self, name: str) -> list[str]:
        """Return every value of a parameter."""
        return self._values.get(name, [])

    def flag(self, name: str) -> bool:
        """Return a boolean; a bare parameter is true, as are 1 and true."""
        return bool(self.optional_flag(name))

    def optional_flag(self, name: str) -> bool | None:
        """Return a boolean, or None where the parameter is absent."""
        if name not in self._values:
            return None
        return self.text(name).lower() not in {"0", "f", "false"}

    def integer(self, name: str) -> int | None:
        """Return a number, or None.

        Raises:
            StatusError: 400 for anything else.
        """
        value = self.text(name)
        if not value:
            return None
        try:
            return int(value)
        except ValueError:
            raise status.bad_request(
                f'strconv.ParseInt: parsing "{value}": invalid syntax'
            ) from None

    def with_values(self, name: str, values: Sequence[str]) -> Query:
        """Return a copy with one parameter replaced."""
        pairs = [(n, v) for n, vs in self._values.items() if n != name for v in vs]
        return Query([*pairs, *((name, value) for value in values)])
