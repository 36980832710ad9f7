"""``sparkdrain checkpoints``: what is kept of streaming jobs, and whether it is whole."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sparkdrain.checkpoints.beam_storage import storage_at
from sparkdrain.checkpoints.catalogue import contents, find, verify
from sparkdrain.coordination.address import checkpoint_root
from sparkdrain.errors import BadOption, CheckpointDamaged, CheckpointFailed
from timers_state import StateError

if TYPE_CHECKING:
    import argparse

    from sparkdrain.checkpoints.catalogue import Found
    from sparkdrain.checkpoints.manifest import Manifest
    from sparkdrain.checkpoints.paths import Paths
    from sparkdrain.checkpoints.storage import Storage


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What can be asked."""
    parser.add_argument(
        "question",
        choices=("list", "verify", "inspect"),
        help="list: a line for each checkpoint; verify: read every byte of them; "
        "inspect: what the newest one of a job holds",
    )
    parser.add_argument("directory", help="what --checkpoint_dir says, or the folder of a job")
    parser.add_argument("--job", default="", metavar="NAME", help="only checkpoints of this job")
    parser.add_argument(
        "--contents", action="store_true", help="with inspect: read the state, and count it"
    )
    parser.add_argument("--number", type=int, metavar="N", help="only the checkpoint N")


def checkpoints(arguments: argparse.Namespace, console: Console | None = None) -> int:
    """Answer; 0 if there are checkpoints and all that were looked at are well, else 1."""
    console = console or Console()
    try:
        directory = checkpoint_root(arguments.directory)
        storage = storage_at(directory)
        found = list(find(storage, directory, arguments.job, arguments.number))
        if not found:
            console.print(f"There is no checkpoint in {escape(arguments.directory)}.")
            return 1
        match arguments.question:
            case "list":
                return _list(found, console)
            case "verify":
                return _verify(storage, found, console)
            case _:
                return _inspect(found, console, storage if arguments.contents else None)
    except (BadOption, CheckpointDamaged, CheckpointFailed, StateError) as error:
        console.print(f"[red]{escape(str(error))}")
        return 1


def _list(found: list[Found], console: Console) -> int:
    table = Table("job", "checkpoint", "made", "round", "slots", "files", "bytes", "")
    for each in found:
        sign = "[red]damaged" if each.wrong else "[green]ok"
        table.add_row(
            escape(each.paths.job_name), str(each.place.stamp), *_row(each.manifest), sign
        )
    console.print(table)
    _print_wrong(found, console)
    return 1 if any(each.wrong for each in found) else 0


def _row(manifest: Manifest | None) -> list[str]:
    if manifest is None:
        return ["?"] * 5
    files = manifest.entries().values()
    return [
        _time(manifest.created),
        str(manifest.round),
        str(manifest.slots),
        str(len(files)),
        f"{sum(file.size for file in files):,}",
    ]


def _verify(storage: Storage, found: list[Found], console: Console) -> int:
    failures = 0
    for each in found:
        sizes: list[int] = []
        wrong = verify(storage, each, sizes.append)
        failures += bool(wrong)
        sign = "[red]damaged[/]" if wrong else "[green]ok[/]"
        name = f"{each.paths.job_name} {each.place.stamp}"
        console.print(f"{sign} {escape(name)}: {len(sizes)} files, {sum(sizes):,} bytes")
        for line in wrong:
            console.print(f"  [red]{escape(line)}", soft_wrap=True)
    return 1 if failures else 0


def _inspect(found: list[Found], console: Console, contents_in: Storage | None) -> int:
    seen = set()
    for each in found:
        if each.paths not in seen:
            seen.add(each.paths)
            _inspect_one(each, console)
            if contents_in is not None and each.manifest is not None:
                _print_contents(contents_in, each.paths, each.manifest, console)
    _print_wrong(found, console)
    return 1 if any(each.wrong for each in found) else 0


def _inspect_one(found: Found, console: Console) -> None:
    manifest = found.manifest
    if manifest is None:
        return
    console.print(f"[bold]{escape(manifest.job_name)}[/], checkpoint {manifest.stamp}")
    console.print(
        f"made {_time(manifest.created)} by run {escape(manifest.run_id)}, after round "
        f"{manifest.round}; {manifest.slots} slots; {len(manifest.driver):,} bytes of the driver"
    )
    shards = Table("level", "slot", "files", "bytes", "bytes brought for it")
    for shard in manifest.shards:
        new = [file for file in shard.files if file.path.startswith(str(manifest.stamp))]
        files, brought = (f"{sum(file.size for file in each):,}" for each in (shard.files, new))
        shards.add_row(str(shard.level), str(shard.slot), str(len(shard.files)), files, brought)
    console.print(shards)
    states = Table("state", "what it is")
    for name, description in sorted(manifest.fingerprint.items()):
        states.add_row(escape(name), escape(description))
    console.print(states)


def _print_contents(storage: Storage, paths: Paths, manifest: Manifest, console: Console) -> None:
    table = Table("level", "slot", "state", "kind", "tag", "keys", "rows", "bytes")
    for shard in manifest.shards:
        for (state, kind, tag), content in contents(storage, paths, shard).items():
            table.add_row(
                str(shard.level),
                str(shard.slot),
                f"{state:x}",
                kind,
                escape(repr(tag)[2:-1]),
                f"{content.keys:,}",
                f"{content.rows:,}",
                f"{content.bytes:,}",
            )
    console.print(table)


def _print_wrong(found: list[Found], console: Console) -> None:
    for each in found:
        for line in each.wrong:
            name = f"{each.paths.job_name} {each.place.stamp}"
            console.print(f"[red]{escape(name)}: {escape(line)}", soft_wrap=True)


def _time(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, timezone.utc).strftime(
        "%Y-%m-%d %H:%M:%S UTC"
    )
