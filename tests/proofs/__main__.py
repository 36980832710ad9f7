"""Command line: ``python -m tests.proofs [NAME ...]``; see docs/proofs.md."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from tests.proofs.listed import PROOFS
from tests.proofs.prove import NotProven, prove

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """Run the proofs that are named, or all; 1 if one of them is not proven."""
    parser = argparse.ArgumentParser(description="Run slow proofs and write down which passed.")
    known = {proof.name: proof for proof in PROOFS}
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(known))
    names = parser.parse_args(argv).names or list(known)
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no proof is called {unknown[0]}; there are {', '.join(known)}")
    failed = False
    for name in names:
        try:
            print(f"{name}: {prove(known[name])}", flush=True)
        except NotProven as error:
            failed = True
            print(f"{name}: not proven: {error}", file=sys.stderr, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
