"""When a server that died is started again, and when no more."""

from dataclasses import dataclass, field

_LONGEST = 60.0  # seconds


@dataclass
class Backoff:
    """Waits 1, 2, 4 … 60 seconds; gives up after so many failures without a good time between."""

    most: int = 8  # failures in a row
    good: float = 300.0  # seconds of service after which earlier failures are forgotten
    _failures: int = field(default=0, init=False)

    def failed(self, served: float) -> float | None:
        """Seconds to wait after a failure that followed so many seconds of service.

        None: give up.
        """
        self._failures = 1 if served >= self.good else self._failures + 1
        if self._failures > self.most:
            return None
        return min(_LONGEST, 2.0 ** (self._failures - 1))
