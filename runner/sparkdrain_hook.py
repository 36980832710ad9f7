"""Makes Beam know ``--runner=SparkDrainRunner`` in programs that never import ``sparkdrain``.

Beam has no plug-ins for runners. So a ``.pth`` file imports this module at every start of Python,
unless ``SPARKDRAIN_NO_HOOK`` is set. All that does is put a finder on ``sys.meta_path``; when
``apache_beam.runners.runner`` is imported it adds one line to Beam's table of runners and takes
itself away. Nothing may be imported here, not even ``__future__``, and this is no part of the
package ``sparkdrain``, because whatever it costs is on everybody's way.
"""

import sys

_MODULE = "apache_beam.runners.runner"
_NAME = "SparkDrainRunner"
_PATH = "sparkdrain.runner.SparkDrainRunner"


def install() -> None:
    """Register the name now if Beam is loaded already, else as soon as it is. Idempotent."""
    loaded = sys.modules.get(_MODULE)
    if loaded is not None:
        add_to(loaded)
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def add_to(module) -> None:  # noqa: ANN001 (no typing at start-up)
    """Put the short name into Beam's table; a name that is there already stays.

    If Beam has changed and there is no such table, nothing happens: this must never be what breaks
    ``import apache_beam``, and the full name ``sparkdrain.SparkDrainRunner`` works without it.
    """
    runners = getattr(module, "_RUNNER_MAP", None)
    if isinstance(runners, dict):
        runners.setdefault(_NAME.lower(), _PATH)
    names = getattr(getattr(module, "StandardOptions", None), "KNOWN_RUNNER_NAMES", None)
    if isinstance(names, list) and _NAME not in names:
        names.append(_NAME)  # for the help text and for the error about an unknown runner


class _Finder:
    """Lets the ordinary finders find Beam's module, and registers us once it has been executed."""

    def find_spec(self, name, path=None, target=None):  # noqa: ANN001, ANN202
        if name != _MODULE:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None:
                _register_after(spec.loader)
                return spec
        return None


def _register_after(loader) -> None:  # noqa: ANN001
    execute = loader.exec_module

    def execute_and_register(module) -> None:  # noqa: ANN001
        # A loader may be shared (zip files): other modules pass, and the change is undone in time.
        if module.__name__ != _MODULE:
            execute(module)
            return
        del loader.exec_module
        execute(module)
        add_to(module)

    loader.exec_module = execute_and_register


install()
