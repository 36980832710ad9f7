"""What lives in a host: the slots of all levels, and the end of them."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

from sparkdrain.fnapi.harness import Outside
from sparkdrain.fnapi.harnesses import Harnesses, HarnessJob
from sparkdrain.rounds.slots.service import SlotService


class Slot:
    is_closed = False

    def close(self):
        self.is_closed = True


def test_closing_the_service_closes_the_slots_of_all_levels(tmp_path):
    outside = Outside(HarnessJob("job", {}), Harnesses())
    service = SlotService(b"", None, None, tmp_path, outside)
    slots = [Slot(), Slot()]
    service._slots = {0: slots[0], 2: slots[1]}
    service.close()
    assert [slot.is_closed for slot in slots] == [True, True]


def test_closing_the_service_sends_what_harnesses_have_logged_while_they_ended(tmp_path):
    """The thread that sends ends with the process, right after this."""
    done = []
    harnesses = SimpleNamespace(close=partial(done.append, "harnesses have ended"))
    outside = Outside(HarnessJob("job", {}), harnesses)
    flush = partial(done.append, "their log is sent")
    SlotService(b"", None, None, tmp_path, outside, flush=flush).close()
    assert done == ["harnesses have ended", "their log is sent"]
