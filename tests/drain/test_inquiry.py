from __future__ import annotations

import threading

from sparkdrain.drain.progress import began
from sparkdrain.drain.signal import Inquiry

PROGRESS = began("mine", 1)


def test_a_question_is_answered_by_the_engine_that_it_wakes():
    inquiry = Inquiry()
    asked = threading.Event()
    inquiry.on_ask(asked.set)

    def engine() -> None:
        assert asked.wait(30)
        inquiry.answer(inquiry.wanted(), PROGRESS)

    assert inquiry.wanted() == 0
    thread = threading.Thread(target=engine)
    thread.start()
    assert inquiry.ask(30) == PROGRESS
    thread.join(30)
    assert inquiry.wanted() == 0


def test_a_question_that_nobody_answers_is_given_up():
    inquiry = Inquiry()
    assert inquiry.ask(0.01) is None
    assert inquiry.wanted() == 1


def test_an_answer_to_an_earlier_question_is_none_to_a_later_one():
    inquiry = Inquiry()
    inquiry.ask(0)
    early = inquiry.wanted()
    inquiry.ask(0)
    inquiry.answer(early, PROGRESS)
    assert inquiry.wanted() == 2
    assert inquiry.ask(0.01) is None


def test_one_answer_is_for_all_who_have_asked():
    inquiry, answers = Inquiry(), []
    asked = threading.Semaphore(0)
    inquiry.on_ask(asked.release)
    threads = [threading.Thread(target=lambda: answers.append(inquiry.ask(30))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert asked.acquire(timeout=30)
    inquiry.answer(inquiry.wanted(), PROGRESS)
    for thread in threads:
        thread.join(30)
    assert answers == [PROGRESS] * 3


def test_who_cannot_answer_says_why_also_to_those_who_ask_later():
    inquiry, answers = Inquiry(), []
    asked = threading.Event()
    inquiry.on_ask(asked.set)
    thread = threading.Thread(target=lambda: answers.append(inquiry.ask(30)))
    thread.start()
    assert asked.wait(30)
    inquiry.decline("batch")
    thread.join(30)
    assert answers == ["batch"]
    assert inquiry.ask(30) == "batch"
