"""The command `python -m bundler.tinymodel`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import bundler.tinymodel
from bundler.tinymodel import ARCHITECTURES, make
from manifests.errors import BundleError


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(
        "python -m bundler.tinymodel", description=bundler.tinymodel.__doc__
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to make")
    parser.add_argument("--architecture", choices=sorted(ARCHITECTURES), default="causal")
    parser.add_argument("--shards", type=int, default=1, help="weight files (default 1)")
    parser.add_argument("--seed", type=int, default=0, help="same seed, same bytes (default 0)")
    options = parser.parse_args(arguments)
    try:
        make(
            options.out,
            architecture=options.architecture,
            shards=options.shards,
            seed=options.seed,
        )
    except BundleError as error:
        sys.stderr.write(error.render() + "\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
