"""A tuning: questions answered one after another, each stored as it comes, within a budget.

It stops between questions, never within one: what it leaves behind is whole answers, and it
knows which questions are left. The command line drives it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Final

import attrs

from xpu.model import ChoiceResult
from xpu.orchestrator.orchestrator import Orchestrator
from xpu.probes import ModelProblems, Question, tried

if TYPE_CHECKING:
    from xpu.spec.design import Arrays

_TIMES_ASKED: Final = 2
"""How often a question is asked while another process is timing it; each time waits its turn."""


@attrs.frozen
class Answer:
    """A question's result, and the seconds that it took."""

    question: Question
    result: ChoiceResult
    seconds: float


class Tuning:
    """Answers questions through an orchestrator, recalling what is stored.

    Parameters
    ----------
    questions
        What is to be answered, in order.
    model
        A model whose own weights are timed on where its matrices have a question's sizes.
    budget_s
        Seconds after which no further question is begun; None: there is no end.
    clock
        Seconds from any start; the budget begins with this object.

    Attributes
    ----------
    answers
        What was answered so far.
    """

    def __init__(
        self,
        orchestrator: Orchestrator,
        questions: Sequence[Question],
        *,
        model: ModelProblems | None = None,
        budget_s: float | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.answers: list[Answer] = []
        self._unanswered = list(questions)
        self._orchestrator = orchestrator
        self._model = model
        self._budget_s = budget_s
        self._clock = clock
        self._began_s = clock()

    @property
    def left(self) -> tuple[Question, ...]:
        """The questions that have no answer, or one that was not kept."""
        return (*(answer.question for answer in self.unkept), *self._unanswered)

    @property
    def unanswered(self) -> tuple[Question, ...]:
        """The questions that have no answer yet."""
        return tuple(self._unanswered)

    @property
    def unkept(self) -> tuple[Answer, ...]:
        """The answers that were not kept because others held the device."""
        return tuple(answer for answer in self.answers if answer.result.is_contended)

    @property
    def is_spent(self) -> bool:
        """Whether the budget is."""
        return self._budget_s is not None and self._clock() - self._began_s >= self._budget_s

    def run(self) -> Iterator[Answer]:
        """Answer what has no answer, and yield each answer as it comes.

        A question that another process is timing is asked again after all the others; it is
        left when its answer is not there even then.
        """
        for _ in range(_TIMES_ASKED):
            for question in self.unanswered:
                if self.is_spent:
                    return
                answer = self._answer(question)
                if answer.result.is_stand_in:
                    continue
                self._unanswered.remove(question)
                self.answers.append(answer)
                yield answer

    def seconds_left(self) -> float | None:
        """Return how long the rest will take, within the budget; None before anyone can tell.

        As long for each question as those took that were timed: which of the rest are stored
        already is not known.
        """
        timed = [answer.seconds for answer in self.answers if answer.result.timed]
        took = timed or [answer.seconds for answer in self.answers]
        if not took:
            return None
        rest = statistics.fmean(took) * len(self._unanswered)
        if self._budget_s is None:
            return rest
        return min(rest, max(0.0, self._began_s + self._budget_s - self._clock()))

    def _answer(self, question: Question) -> Answer:
        began_s = self._clock()
        result = tried(
            self._orchestrator.choose,
            question.family,
            question.problem,
            memory=question.memory,
            data=lambda: self._data(question),
        )
        return Answer(question, result, self._clock() - began_s)

    def _data(self, question: Question) -> Arrays | None:
        if self._model is None:
            return None
        family = self._orchestrator.settings.family(question.family)
        design = self._orchestrator.registry.design_of(family)
        return self._model.data(family, design, question.problem)
