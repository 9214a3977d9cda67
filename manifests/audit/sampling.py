"""Read some files instead of all, and say what that proves.

A sample is drawn by files, each with the same chance whatever its size: those whose sha256 over
SEED, a zero byte and the file's name is lowest. So anybody can draw it again from the seed, and
nobody beforehand who doesn't know the seed.
"""

import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from math import perm
from typing import Any

from manifests.errors import UsageError

_WISH = re.compile(r"([0-9]{1,9})|([0-9]{1,3})(?:\.([0-9]{1,4}))?%")
#: Digits of a probability that are shown; the last one is rounded up.
_DIGITS = 4


@dataclass(frozen=True)
class Sample:
    """How much is read: a number of files, or a share of them."""

    wish: str  # "200", "5%", "0.5%"
    seed: str

    def count(self, population: int) -> int:
        """Files that are read of so many; a share is rounded up."""
        match = _WISH.fullmatch(self.wish)
        assert match is not None
        if match[1]:
            return min(int(match[1]), population)
        part = f"{match[3] or '':0<4}"
        return min(-(-population * int(match[2] + part) // 1_000_000), population)

    def draw(self, names: Collection[str]) -> frozenset[str]:
        """The files that are read."""
        ranked = sorted(names, key=lambda name: (_rank(self.seed, name), name))
        return frozenset(ranked[: self.count(len(ranked))])


@dataclass(frozen=True)
class Sampled:
    """What was read of what there is. `proofs` says what follows where all of it is right."""

    seed: str
    files: int
    of_files: int
    size: int  # bytes
    of_size: int

    def proofs(self) -> tuple[tuple[int, str], ...]:
        """Wrong files → the probability that none of them is in the sample, rounded up.

        For 1, for 10 and for 1 % of the files.
        """
        share = -(-self.of_files // 100)
        bad = sorted({n for n in (1, 10, share) if 0 < n <= self.of_files})
        return tuple((n, missed(self.of_files, self.files, n)) for n in bad)

    def lines(self) -> list[str]:
        """For people."""
        told = [
            f"sample: the bytes of {self.files} of {self.of_files} files were read, {self.size} of "
            f"{self.of_size} bytes; names, sizes, modes, links and extra files were all checked",
            f"  drawn by files, each with the same chance; seed: {self.seed}",
        ]
        told += [
            f"  were {n} of them wrong, the sample would have missed that with probability {chance}"
            for n, chance in self.proofs()
        ]
        return told

    def as_record(self) -> dict[str, Any]:
        """As --json prints it."""
        return {
            "seed": self.seed,
            "drawn_by": "files",
            "files": self.files,
            "of_files": self.of_files,
            "bytes": self.size,
            "of_bytes": self.of_size,
            "missed": [{"wrong": n, "probability": chance} for n, chance in self.proofs()],
        }


def parse(wish: str, seed: str = "") -> Sample:
    """Read --sample and --seed; without a seed nobody could have known this one beforehand.

    Raises UsageError.
    """
    match = _WISH.fullmatch(wish)
    if match is None or not wish.strip("0.%") or (match[2] and int(match[2]) > 100):
        raise UsageError(
            f"--sample {wish!r} can't be read",
            mend="give a number of files, 200, or a share of them, 5% or 0.5%",
        )
    if seed and not (seed.isprintable() and len(seed) <= 100):
        raise UsageError("--seed is no plain text of at most 100 characters")
    return Sample(wish, seed or os.urandom(16).hex())


def missed(population: int, drawn: int, wrong: int) -> str:
    """The probability that none of `wrong` files is among those `drawn`.

    Hypergeometric, drawn without replacement: C(N-w, k) / C(N, k), exact but for the last digit,
    which is rounded up.
    """
    from decimal import ROUND_CEILING, Context, Decimal  # `status` loads this module too

    digits = Context(prec=_DIGITS, rounding=ROUND_CEILING)
    chance = digits.divide(Decimal(perm(population - drawn, wrong)), perm(population, wrong))
    return format(chance.normalize(), "f" if chance == 0 or chance >= Decimal("0.0001") else "e")


def _rank(seed: str, name: str) -> bytes:
    return sha256(seed.encode() + b"\0" + name.encode("utf-8", "surrogateescape")).digest()
