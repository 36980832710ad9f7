"""Answers what an SDK harness asks of state: that of DoFns, side inputs, and large groups."""

from __future__ import annotations

import struct
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from apache_beam import coders
from apache_beam.coders.coder_impl import create_InputStream
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2

from sparkdrain.fnapi.aside import StageAside
from sparkdrain.fnapi.elements import unprefixed
from sparkdrain.fnapi.errors import UnknownState
from sparkdrain.graph.beam import common_urns
from sparkdrain.shuffle.values import joined_chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence

    from sparkdrain.fnapi.large_groups import LargeGroups
    from sparkdrain.fnapi.lives import WindowLives
    from sparkdrain.fnapi.worker import SdkWorker
    from sparkdrain.graph.plan import EdgeId
    from sparkdrain.side_inputs.state import SideContent
    from timers_state import KeyScope
    from timers_state.cells.multimap import Multimap

# Bytes of one answer; what is left comes with the next one.
_ANSWER_BYTES: Final = 4 << 20
_COUNT_BYTES: Final = 4
# A key goes to the harness within one answer, with its values. SDKs ask for the values of a key
# alone if they get an error.
_ENTRY_BYTES: Final = 64 << 20
# Keys whose values are counted together.
_COUNTED: Final = 100
_LENGTHS: Final = "sparkdrain:lengths"
_COUNT: Final = struct.Struct(">i")
# Of an ordered list: sort key, and the item with its length. Python's SDK writes them so, and Go's
# because its coder for items says so.
_ENTRY: Final = coders.TupleCoder((coders.VarIntCoder(), coders.BytesCoder())).get_impl()
_OF_USER: Final = {
    "bag_user_state",
    "multimap_user_state",
    "multimap_keys_user_state",
    "multimap_entries_user_state",
    "ordered_list_user_state",
}


class StateAnswers:
    """Answers the requests of the bundles of a stage.

    What a bundle has begun to read is named by a continuation token. An SDK may keep the first
    part, with its token, for later bundles, and ask for the next part again. So a token also has
    the number of bytes before that part.
    """

    def __init__(self, sides: SideRequests, user: UserState, groups: LargeGroups) -> None:
        self._sides = sides
        self._user = user
        self._groups = groups
        self._going_on: dict[bytes, Iterator[bytes]] = {}
        self._tokens = 0

    def forget(self) -> None:
        """The bundle has ended: what is left is read anew if it is asked for."""
        self._going_on.clear()
        self._groups.forget()

    def answer(self, request: beam_fn_api_pb2.StateRequest) -> beam_fn_api_pb2.StateResponse:
        """The answer, which may be an error."""
        try:
            return self._answer(request)
        except UnknownState as error:
            return beam_fn_api_pb2.StateResponse(error=str(error))

    def _answer(self, request: beam_fn_api_pb2.StateRequest) -> beam_fn_api_pb2.StateResponse:
        key = request.state_key
        kind = str(key.WhichOneof("type"))
        what = request.WhichOneof("request")
        if kind == "runner" and what == "get":
            return self._groups.read(key.runner.key, request.get.continuation_token)
        is_of_user = kind in _OF_USER
        if not (is_of_user or kind.endswith("_side_input")):
            return beam_fn_api_pb2.StateResponse(error=f"state of the kind {kind} is not kept here")
        match what:
            case "get":
                source = self._user if is_of_user else self._sides
                return self.part(request.get.continuation_token, partial(source.read, key))
            case "append":
                self._user.append(key, request.append.data)
                return beam_fn_api_pb2.StateResponse(append={})
            case _:
                self._user.clear(key)
                return beam_fn_api_pb2.StateResponse(clear={})

    def part(
        self, token: bytes, read: Callable[[], Iterator[bytes]]
    ) -> beam_fn_api_pb2.StateResponse:
        """The part that a token names.

        Args:
            token: b"" for the first part.
            read: begins to read what is asked for.
        """
        before = 0
        content = self._going_on.pop(token, None)
        if token:
            try:
                before = int(token.partition(b".")[2])
            except ValueError:
                return beam_fn_api_pb2.StateResponse(error="the continuation token is unknown")
        if content is None:
            content = _after(before, read()) if before else read()
        answer, size, parts = beam_fn_api_pb2.StateGetResponse(), 0, []
        for piece in content:
            parts.append(piece)
            size += len(piece)
            if size >= _ANSWER_BYTES:
                self._tokens += 1
                answer.continuation_token = b"%d.%d" % (self._tokens, before + size)
                self._going_on[answer.continuation_token] = content
                break
        answer.data = b"".join(parts)
        return beam_fn_api_pb2.StateResponse(get=answer)


def _after(before: int, content: Iterator[bytes]) -> Iterator[bytes]:
    """What is left of pieces without so many bytes."""
    for piece in content:
        if before >= len(piece):
            before -= len(piece)
        else:
            yield piece[before:] if before else piece
            before = 0


class SideRequests:
    """The side inputs of a stage.

    Elements are as the harness encodes them, so chunks go to it as they are.

    Args:
        edges: by transform and tag.
        open_content: the content of an edge; None if it is empty.
    """

    def __init__(
        self,
        edges: Mapping[tuple[str, str], EdgeId],
        open_content: Callable[[int], Any],
    ) -> None:
        self._edges = edges
        self._open = open_content

    def read(self, key: beam_fn_api_pb2.StateKey) -> Iterator[bytes]:
        """What a state key asks for, in pieces.

        Raises:
            UnknownState: the stage has no such side input.
        """
        kind = key.WhichOneof("type")
        asked = getattr(key, str(kind))
        edge = self._edges.get((asked.transform_id, asked.side_input_id))
        if edge is None:
            message = f"{asked.transform_id!r} has no side input {asked.side_input_id!r} here"
            raise UnknownState(message)
        content = self._open(edge)
        if content is None:
            return iter(())
        window = asked.window
        if kind == "multimap_keys_side_input":
            return (key for key, _ in content.keys(window))
        if kind == "multimap_keys_values_side_input":
            return _side_entries(content, window)
        wanted = asked.key if kind == "multimap_side_input" else b""
        values: Iterator[bytes] = content.values(window, wanted, _elements)
        return values


def _elements(chunk: bytes) -> list[bytes]:
    """What a chunk has, without the count of it."""
    return [chunk[_COUNT_BYTES:]]


def _side_entries(content: SideContent, window: bytes) -> Iterator[bytes]:
    """Keys with their values, as the coder of pairs of a key and an iterable has them."""
    for key, chunks in content.keys(window):
        few, size = [], 0
        for chunk in chunks:
            few.append(chunk)
            size += len(chunk)
            if size > _ENTRY_BYTES:
                message = "a key of the side input has too many values to be read with all keys"
                raise UnknownState(message)
        yield key + joined_chunks(few)


class UserState:
    """The state of the DoFns of a stage. All values stay as the harness has encoded them.

    Each method raises ``UnknownState`` if the stage has no such state.

    Args:
        lives: what forgets the windows of a stateful DoFn, by its transform id.
        count: how many values there are in several parts of the multimap of a transform, by the
            names of both.
    """

    def __init__(
        self,
        lives: Mapping[str, WindowLives],
        count: Callable[[str, str, Sequence[bytes]], Sequence[int]],
    ) -> None:
        self._lives = lives
        self._count = count

    def read(self, key: beam_fn_api_pb2.StateKey) -> Iterator[bytes]:
        """The content of a state, in pieces."""
        kind, asked, scope = self._of(key)
        tag = asked.user_state_id.encode()
        match kind:
            case "bag_user_state":
                return chain.from_iterable(scope.bag(tag, asked.window).segments())
            case "multimap_user_state":
                return scope.multimap(tag, asked.window).get(asked.map_key)
            case "ordered_list_user_state":
                found = scope.ordered_list(tag, asked.window).read(*_bounds(asked))
                return map(_ENTRY.encode_nested, found)
            case "multimap_entries_user_state":
                count = partial(self._count, asked.transform_id, asked.user_state_id)
                return _entries(scope.multimap(tag, asked.window), count)
            case _:
                return scope.multimap(tag, asked.window).keys()

    def append(self, key: beam_fn_api_pb2.StateKey, data: bytes) -> None:
        """Add to a state."""
        kind, asked, scope = self._of(key)
        tag = asked.user_state_id.encode()
        self._lives[asked.transform_id].keep(scope.key, asked.window)
        match kind:
            case "bag_user_state":
                scope.bag(tag, asked.window).append(data)
            case "ordered_list_user_state":
                entries = scope.ordered_list(tag, asked.window)
                for sort_key, item in _ENTRY.decode_all(data):
                    entries.append(sort_key, item)
            case _:
                scope.multimap(tag, asked.window).put(asked.map_key, data)

    def clear(self, key: beam_fn_api_pb2.StateKey) -> None:
        """Remove all that a state has."""
        kind, asked, scope = self._of(key)
        tag = asked.user_state_id.encode()
        match kind:
            case "bag_user_state":
                scope.bag(tag, asked.window).clear()
            case "multimap_user_state":
                scope.multimap(tag, asked.window).remove(asked.map_key)
            case "ordered_list_user_state":
                scope.ordered_list(tag, asked.window).clear_range(*_bounds(asked))
            case _:
                scope.multimap(tag, asked.window).clear()

    def _of(self, key: beam_fn_api_pb2.StateKey) -> tuple[str, Any, KeyScope]:
        kind = str(key.WhichOneof("type"))
        asked = getattr(key, kind)
        lives = self._lives.get(asked.transform_id)
        if lives is None or not asked.key:
            message = f"{asked.transform_id!r} keeps no state here for the key {asked.key!r}"
            raise UnknownState(message)
        # The harness tells the key with its length.
        encoded, _ = unprefixed(asked.key)
        return kind, asked, lives.scope(encoded)


class ValueCounts:
    """Counts values that stand one behind the other, by a stage that gives the length of each.

    Args:
        worker: the harness, which is amid another bundle.
        known: a descriptor with the coder.
        capabilities: what the harness's SDK can do.
    """

    def __init__(
        self,
        worker: SdkWorker,
        known: beam_fn_api_pb2.ProcessBundleDescriptor,
        coder: str,
        *,
        capabilities: Container[str],
    ) -> None:
        lengths = beam_runner_api_pb2.Coder(component_coder_ids=[coder])
        lengths.spec.urn = common_urns.coders.LENGTH_PREFIX.urn
        self._stage = StageAside(
            worker,
            {**known.coders, _LENGTHS: lengths},
            coder,
            _LENGTHS,
            capabilities=capabilities,
        )

    def count(self, several: Sequence[bytes]) -> list[int]:
        """How many values each of several pieces of data has."""
        return list(map(_counted, self._stage.run(several)))


def _counted(lengths: bytes) -> int:
    stream, count = create_InputStream(lengths), 0
    while stream.size() > 0:
        stream.read(stream.read_var_int64())
        count += 1
    return count


def _entries(
    multimap: Multimap, count: Callable[[Sequence[bytes]], Sequence[int]]
) -> Iterator[bytes]:
    """Each key with its values, as the coder of pairs of a key and an iterable has them."""
    keys = iter(multimap.keys())
    while some := list(islice(keys, _COUNTED)):
        parts = [b"".join(multimap.get(key)) for key in some]
        for key, number, data in zip(some, count(parts), parts, strict=True):
            yield b"".join((key, _COUNT.pack(number), data))


def _bounds(asked: Any) -> tuple[int, int]:
    """From which sort key, and up to which, an ordered list is asked for."""
    return asked.range.start, asked.range.end
