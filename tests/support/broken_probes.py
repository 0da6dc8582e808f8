"""Probes that are each wrong in one way, and the tests of the kit that must find it."""

from __future__ import annotations

from xpu.model import ChoiceResult
from xpu.spec import Probe


class Base(Probe):
    """A right one, with an answer of its own."""

    name = "base"
    summary = "what a test is held to"
    build_id = "1"

    def run(self, context):
        for family in context.plan.families:
            with context.hold():
                for problem in context.problems(family):
                    yield context.trial(family, problem)
            kept = context.recall(f"base.{family}", self.build_id)
            if kept is None:
                kept = "narrow"
                context.remember(f"base.{family}", kept, self.build_id)
            yield ChoiceResult(family, "all", kept, "stored")


class AllAtOnce(Base):
    def run(self, context):
        return list(super().run(context))


class OwnFamily(Base):
    def run(self, context):
        yield from super().run(context)
        for problem in context.problems("q4k_tile"):
            yield context.trial("q4k_tile", problem)


class KeepsResults(Base):
    def run(self, context):
        for family in context.plan.families:
            for at, problem in enumerate(context.problems(family)):
                result = context.trial(family, problem)
                if at:
                    yield result


class GivesNames(Base):
    def run(self, context):
        for result in super().run(context):
            yield result.member


class StopsAtARefusal(Base):
    def run(self, context):
        for result in super().run(context):
            yield result
            if result.source == "refused":
                return


class HoldsForGood(Base):
    def run(self, context):
        context.hold().__enter__()
        yield from super().run(context)


class RestsOnNothing(Base):
    build_id = ""


class SaysAnother(Base):
    def run(self, context):
        yield from super().run(context)
        context.remember("base.more", "wide", "1")


class NeverAsks(Base):
    def run(self, context):
        for family in context.plan.families:
            context.remember(f"base.{family}", "narrow", "1")
            yield ChoiceResult(family, "all", "narrow", "timed")


class NeedsAPlan(Base):
    def run(self, context):
        context.plan.families[0]
        yield from super().run(context)


class MeasuresNothing(Base):
    def run(self, context):
        return ()


class NoSummary(Base):
    summary = " "


class NeedsAnArgument(Base):
    def __init__(self, path):
        self.path = path


SAYS = "test_it_says_what_it_is"
GIVES = "test_it_gives_the_results_that_its_trials_gave"

# Probe, and the tests that find it.
FOUND = {
    AllAtOnce: {"test_results_come_one_by_one"},
    OwnFamily: {"test_it_names_no_family_of_its_own"},
    KeepsResults: {GIVES},
    GivesNames: {GIVES},
    StopsAtARefusal: {"test_a_problem_that_nothing_can_serve_costs_no_other"},
    HoldsForGood: {"test_a_hold_is_given_back"},
    RestsOnNothing: {"test_it_remembers_what_it_says"},
    SaysAnother: {"test_it_remembers_what_it_says"},
    NeverAsks: {"test_what_it_remembers_is_not_measured_again"},
    NeedsAPlan: {"test_an_empty_plan_is_nothing_to_do"},
    MeasuresNothing: {GIVES},
    NoSummary: {SAYS},
    NeedsAnArgument: {SAYS},
}
# Those whose whole suite is run: what fails there is all that fails, and the rest is skipped.
WHOLE = {"NeedsAnArgument"}
