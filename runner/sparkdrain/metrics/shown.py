"""Metrics as clients get them: complete, and without secrets in names and texts."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, TypeAlias

from apache_beam import coders
from apache_beam.metrics import monitoring_infos
from apache_beam.portability.api import metrics_pb2

from sparkdrain.metrics.laws import complete
from sparkdrain.metrics.merge import Info
from sparkdrain.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_Hide: TypeAlias = "Callable[[str], str]"
_TEXTS = coders.IterableCoder(coders.StrUtf8Coder())


def shown(infos: Iterable[Info]) -> list[Info]:
    """Copies of metrics, to be shown."""
    hide = functools.cache(redact)  # few names, in many metrics
    return [_shown(info, hide) for info in infos]


def _shown(info: Info, hide: _Hide) -> Info:
    copy = Info()
    copy.CopyFrom(info)
    for name, text in info.labels.items():
        copy.labels[name] = hide(text)
    copy.payload = complete(info.type, info.payload)
    if monitoring_infos.is_string_set(info):
        texts = monitoring_infos.extract_string_set_value(info)
        copy.payload = _TEXTS.encode(sorted(set(map(hide, texts))))
    elif monitoring_infos.is_bounded_trie(info):
        trie = metrics_pb2.BoundedTrie.FromString(info.payload)
        trie.singleton[:] = map(hide, trie.singleton)
        _hide_below(trie.root, hide)
        copy.payload = trie.SerializeToString()
    return copy


def _hide_below(node: metrics_pb2.BoundedTrieNode, hide: _Hide) -> None:
    for name in list(node.children):
        child = node.children[name]
        _hide_below(child, hide)
        if (instead := hide(name)) != name:
            node.children[instead].MergeFrom(child)
            del node.children[name]
