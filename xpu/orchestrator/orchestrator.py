"""`Orchestrator`: the way into XPU for a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xpu.choice import ShapeChoice
from xpu.errors import XpuLaunchException
from xpu.filter import ShapeFilter
from xpu.model import ChoiceResult, DeviceFacts, Family, MemberResult, Problem
from xpu.orchestrator.assembly import Assembly
from xpu.orchestrator.binder import Binder
from xpu.orchestrator.bound import BoundKernel
from xpu.orchestrator.calibrator import Calibrator
from xpu.orchestrator.events import Event, Listener, tell
from xpu.orchestrator.host import Host, answers_of
from xpu.orchestrator.op import Op
from xpu.orchestrator.opening import opened
from xpu.orchestrator.policy import memory_mode, tuning_policy
from xpu.orchestrator.service import Service
from xpu.orchestrator.trials import Trials
from xpu.orchestrator.weights import PreparedWeights
from xpu.probes import ModelProblems, ProbeOutcome, run_probes
from xpu.registry import Registry, default_registry
from xpu.store import Autotune

if TYPE_CHECKING:
    from xpu.spec.design import Arrays


class Orchestrator:
    """Binds families to problems on one device.

    Parameters
    ----------
    store
        Directory of remembered answers, or None for none.
    tuning
        ``off`` (defaults and overrides only), ``stored`` (recall, else the default),
        ``first-use`` (time at the first bind) or ``load`` (run the configured probes
        now). None: ``first-use`` when XPU_AUTOTUNE=1, else ``stored``.
    backend
        Name of the backend; None for the first that is available.
    device
        Number of its device.
    config
        A directory or TOML file over the shipped, plugins' and user's configuration.
    memory
        ``warm`` or ``cold``: how candidates are timed.
    build_cache
        Directory of built code; None for ``$XPU_BUILD_CACHE`` or the platform's.
    bundle
        What ``xpu build --out`` wrote, to do without a compiler. None: members are compiled.
    listener
        Hears of every default served for want of an answer and every answer dropped.
    registry
        Plugins to use; None for those installed.

    Raises
    ------
    XpuConfigError
        An argument or the configuration is not acceptable.
    XpuLaunchException
        The backend is not available, or the bundle holds nothing for the device.
    XpuBuildError
        The bundle is damaged, or of another schema.
    """

    def __init__(
        self,
        store: str | Path | None = None,
        *,
        tuning: str | None = None,
        backend: str | None = None,
        device: int = 0,
        config: str | Path | None = None,
        memory: str = "warm",
        build_cache: str | Path | None = None,
        bundle: str | Path | None = None,
        listener: Listener | None = None,
        registry: Registry | None = None,
    ) -> None:
        policy = tuning_policy(tuning)
        self._memory = memory_mode(memory)
        self._is_closed = False
        self.registry = registry or default_registry()
        parts = opened(self.registry, backend, device, config, bundle, build_cache)
        self.settings, self.backend, self._device = parts.settings, parts.backend, parts.device
        self._assembly = Assembly(self.settings, self.registry, self._device, parts.adaptor)
        self.store = None if store is None else Autotune(store, self._device.facts)
        self._choice = ShapeChoice(
            store=self.store,
            foreign_load=self._device.foreign_load,
            on_dropped=lambda *dropped: tell(listener, Event("dropped", *dropped)),
        )
        self._trials = Trials(self._assembly, self._device, device)
        self._service = Service(
            self._assembly, self._choice, self._trials, tuning=policy, listener=listener
        )
        self._binder = Binder(self._assembly, self._device, self._service, self._trials)
        if policy == "load":
            self.prewarm()

    @property
    def facts(self) -> DeviceFacts:
        """The device as its driver reports it."""
        return self._device.facts

    @property
    def calibrator(self) -> Calibrator:
        """What measures the device as a whole, and names it."""
        return Calibrator(self._assembly, self._trials, self._device)

    def bind(self, family: str, *, memory: str | None = None, **sizes: int) -> BoundKernel:
        """Return the kernel that serves a family on a problem.

        Parameters
        ----------
        family
            Name of the family.
        memory
            Memory mode of a trial; the orchestrator's own when None.
        sizes
            The problem, for instance ``m=512, n=4096, k=4096``.

        Raises
        ------
        XpuConfigError
            The family or a size is not known.
        XpuLaunchException
            No member can serve; the message names each with rule, need and limit.
        XpuBuildError
            No source in the backend's dialect, or the weight preparation does not compile.
        XpuPluginError
            The code of a plugin failed; the message names it.
        """
        bound, key = self._binder.bound, (family, memory, *sizes.items())
        with suppress(KeyError, TypeError):  # TypeError: a size that is none, refused below
            return bound[key]
        kernel = self._binder.bind(self._family(family), sizes, memory_mode(memory, self._memory))
        if kernel.is_final:
            bound[key] = kernel
        return kernel

    def op(self, family: str, *, memory: str | None = None, **sizes: int) -> Op:
        """Return a callable with one size left open, which the arrays of each call give.

        Raises
        ------
        XpuConfigError
            Not all sizes but one are given.
        """
        declared = self._family(family)
        mode = memory_mode(memory, self._memory)
        op = Op(
            declared,
            self.registry.design_of(declared),
            sizes,
            lambda name, size: self.bind(family, memory=mode, **sizes, **{name: size}),
            # A trial would become part of what is being recorded.
            lambda stream: self.hold() if self._device.is_capturing(stream) else nullcontext(),
        )
        self._binder.watch(op)
        return op

    def prepare(self, family: str, weights: Any) -> PreparedWeights:
        """Repack weights once, for any number of calls of a family and its siblings.

        Parameters
        ----------
        weights
            The raw array as the family takes it, for instance uint8 (n, bytes per row).

        Raises
        ------
        XpuLaunchException
            The family takes its weights as they are, or the array is not of its kind.
        """
        preparer = self._trials.preparer(self._family(family))
        if preparer is None:
            raise XpuLaunchException(f"family {family!r} takes its weights as they are")
        return preparer.prepare(weights)

    def choose(
        self,
        family: str,
        problem: Problem,
        *,
        memory: str | None = None,
        data: Arrays | None = None,
    ) -> ChoiceResult:
        """Recall or time the answer for a problem, whatever the tuning policy.

        Parameters
        ----------
        data
            Arrays to time on, by argument name; random data stands for those not given.
        """
        declared, ordered, mode = self._asked(family, problem, memory)
        served = self._service.serve(declared, ordered, memory=mode, must_time=True, data=data)
        self._binder.forget()
        return served.result

    def foresee(self, family: str, problem: Problem, memory: str) -> ChoiceResult | None:
        """Return what `choose` would answer untimed, building nothing; None: it would time."""
        return self._service.foreseen(*self._asked(family, problem, memory), self.store)

    def time_members(self, family: str, key: str, memory: str) -> tuple[MemberResult, ...]:
        """Check and time every member that can serve a problem; nothing is chosen or kept."""
        declared, mode = self._family(family), memory_mode(memory, self._memory)
        problem = Problem.parse(declared.problem, key)
        return self._trials.timed(self._service.to_time(declared, problem, mode), mode)

    def considered(self, family: str, problem: Problem) -> ShapeFilter:
        """Build a family's members and return the filter's word on each."""
        return self._service.considered(*self._asked(family, problem, None)).filter

    def prewarm(
        self, problems: Iterable[tuple[str, Mapping[str, int]]] | None = None
    ) -> list[ChoiceResult]:
        """Choose for pairs of family and sizes ahead of use; None: what the probes look at."""
        if problems is not None:
            return [self.choose(family, Problem(**sizes)) for family, sizes in problems]
        return answers_of(self.run_probes())

    def run_probes(
        self,
        names: Sequence[str] = (),
        *,
        memory: str | None = None,
        model: ModelProblems | None = None,
    ) -> Iterator[ProbeOutcome]:
        """Run probes and yield each result as it comes; see `xpu.probes.run_probes`."""
        mode = None if memory is None else memory_mode(memory)
        host = Host(self, self._choice, self._device, self._trials.timer)
        return run_probes(host, self.settings, self.registry, names=names, memory=mode, model=model)

    def override(self, family: str, member: str) -> None:
        """Serve a member untimed until `clear_override`.

        Raises
        ------
        XpuConfigError
            The family is not known. An unknown or pruned member raises at the next bind.
        """
        self._service.override(self._family(family).name, member)
        self._binder.forget()

    def clear_override(self, family: str) -> None:
        """Undo `override`."""
        self._service.override(self._family(family).name, None)
        self._binder.forget()

    def hold(self) -> AbstractContextManager[None]:
        """Serve defaults untimed while the context is open; stored answers still serve."""
        return self._choice.hold()

    @property
    def settled(self) -> bool:
        """Whether no trial is under way, so that a measurement may be believed."""
        return self._service.underway.is_settled()

    def wait_settled(self, timeout_s: float | None = None) -> bool:
        """Wait until no trial is under way; False when the time ran out."""
        return self._service.underway.wait_settled(timeout_s)

    def trim(self) -> None:
        """Give back what is kept to choose again soon: worker process, unused device memory."""
        self._trials.trim()

    def close(self) -> None:
        """Stop the worker process and close the device. Calling it twice is allowed.

        Nothing can be bound any more, and what is bound may not be called.
        """
        self._is_closed = True
        self._binder.forget()
        self._trials.close()
        self._device.close()

    def __enter__(self) -> Orchestrator:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _family(self, name: str) -> Family:
        if self._is_closed:
            raise XpuLaunchException(f"family {name!r}: this orchestrator is closed; make another")
        return self.settings.family(name)

    def _asked(
        self, family: str, problem: Problem, memory: str | None
    ) -> tuple[Family, Problem, str]:
        declared, mode = self._family(family), memory_mode(memory, self._memory)
        return declared, self._assembly.problem(declared, problem.sizes), mode
