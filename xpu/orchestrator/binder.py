"""From an answer to a bound kernel: the member is considered for the real sizes and loaded."""

from __future__ import annotations

from xpu.errors import XpuLaunchException
from xpu.model import Family, Problem
from xpu.orchestrator.assembly import Assembly
from xpu.orchestrator.bound import BoundKernel
from xpu.orchestrator.service import Served, Service
from xpu.orchestrator.trials import Trials
from xpu.spec import Device


class Binder:
    """Binds on one device what a service chose."""

    def __init__(
        self, assembly: Assembly, device: Device, service: Service, trials: Trials
    ) -> None:
        self._assembly = assembly
        self._device = device
        self._service = service
        self._trials = trials

    def bind(self, family: Family, problem: Problem, memory: str) -> BoundKernel:
        """Return the kernel that serves a family on a problem.

        Raises
        ------
        XpuLaunchException
            No member can serve; the message names each.
        """
        if 0 in problem.sizes.values():
            # Nothing is ever launched, so there is nothing to time.
            return self._kernel(family, problem, self._service.default(family, problem))
        served = self._service.serve(family, problem, memory=memory)
        return self._kernel(family, problem, self._fitted(family, problem, served))

    def _fitted(self, family: Family, problem: Problem, served: Served) -> Served:
        """Return the answer with its member considered for the real sizes."""
        assembled, member = served.assembled, served.result.member
        if assembled.problem != problem:
            assembled = self._assembly.assemble(family, problem, build=[member])
        if assembled.serves(member):
            return Served(assembled, served.result, served.is_final)
        return self._service.default(family, problem, is_final=served.is_final)

    def _kernel(self, family: Family, problem: Problem, served: Served) -> BoundKernel:
        assembled, member = served.assembled, served.result.member
        built, verdict = assembled.built[member], assembled.verdict(member)
        if verdict is None:
            raise XpuLaunchException(assembled.filter.refusal())
        return BoundKernel(
            family=family.name,
            problem=problem,
            device=self._device,
            kernel=self._device.load(built.code, built.manifest.entry),
            launch=assembled.launch(member),
            arguments=assembled.design.arguments,
            shapes=assembled.design.shapes(problem, family.constants),
            sizes=assembled.sizes,
            preparer=self._trials.preparer(family),
            result=served.result,
            is_final=served.is_final,
            verdict=verdict,
            pruned=assembled.filter.pruned,
        )
