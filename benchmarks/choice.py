"""What a command line of a benchmark was told to take: names out of those that there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def chosen(
    parser: argparse.ArgumentParser, option: str, text: str, known: Sequence[str]
) -> list[str]:
    """The names in ``text``, which has commas between them, in the order of ``known``.

    A name that is not known ends the program, as argparse does it, with all that are.
    """
    names = text.split(",")
    for name in names:
        if name not in known:
            parser.error(f"{option}: {name!r} is none of {', '.join(known)}")
    return [name for name in known if name in names]
