"""From an answer to a bound kernel: the member is considered for the real sizes and loaded."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from weakref import WeakSet

from xpu.choice import Packer
from xpu.errors import XpuLaunchException
from xpu.model import Family, Problem
from xpu.orchestrator.arguments import Arguments
from xpu.orchestrator.assembly import Assembly
from xpu.orchestrator.bound import BoundKernel
from xpu.orchestrator.calls import Calls
from xpu.orchestrator.op import Op
from xpu.orchestrator.served import Served
from xpu.orchestrator.service import Service
from xpu.orchestrator.trials import Trials
from xpu.spec import Device


class Binder:
    """Binds on one device what a service chose, and remembers what it bound.

    `bound` holds final kernels by family, memory mode and sizes. It is replaced when answers
    may have changed, never emptied: what a bind under way in another thread finds is then
    kept in the old one.
    """

    def __init__(
        self, assembly: Assembly, device: Device, service: Service, trials: Trials
    ) -> None:
        self._assembly = assembly
        self._device = device
        self._service = service
        self._trials = trials
        self.bound: dict[tuple[object, ...], BoundKernel] = {}
        self._ops: WeakSet[Op] = WeakSet()
        self._ops_lock = threading.Lock()

    def bind(self, family: Family, sizes: Mapping[str, int], memory: str) -> BoundKernel:
        """Return the kernel that serves a family on a problem.

        Raises
        ------
        XpuConfigError
            The sizes are not the family's.
        XpuLaunchException
            No member can serve; the message names each.
        """
        bound = self.bound
        problem = self._assembly.problem(family, sizes)
        key = (family.name, memory, *problem.sizes.items())
        kernel = bound.get(key)
        if kernel is None:
            served = self._service.serve(family, problem, memory=memory)
            served = self._service.fitted(family, problem, served, memory)
            kernel = self._kernel(family, problem, served)
        return bound.setdefault(key, kernel) if kernel.is_final else kernel

    def watch(self, op: Op) -> None:
        """Have an op bind anew, too, when answers may have changed."""
        with self._ops_lock:
            self._ops.add(op)

    def forget(self) -> None:
        """Bind anew from now on: answers may have changed."""
        self.bound = {}
        with self._ops_lock:
            for op in self._ops:
                op.forget()

    def _kernel(self, family: Family, problem: Problem, served: Served) -> BoundKernel:
        assembled, member = served.assembled, served.result.member
        verdict = assembled.verdict(member)
        if verdict is None:
            raise XpuLaunchException(assembled.filter.refusal())
        arguments = Arguments(
            f"{family.name} {problem.key}",
            self._device,
            assembled.design.arguments,
            assembled.design.shapes(problem, family.constants),
            self._trials.preparer(family),
        )
        packer = Packer(self._device, assembled.arm(member))
        return BoundKernel(
            family=family.name,
            problem=problem,
            calls=Calls(family.name, problem, self._device, packer, arguments),
            result=served.result,
            is_final=served.is_final,
            verdict=verdict,
            pruned=assembled.filter.pruned,
            aside=assembled.filter.aside,
        )
