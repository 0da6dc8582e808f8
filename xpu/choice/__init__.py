"""The choice among survivors: the trial, the decision, and what is remembered of it.

`ShapeChoice` decides; `KernelTrial` is its probe for real kernels, with a worker process
for code that has never run well. No vendor is known here, and no file is read or written
but through the store.
"""

from xpu.choice.fault import MemberFault
from xpu.choice.kernel_trial import Arm, KernelTrial, Subject
from xpu.choice.proofs import Proofs
from xpu.choice.shape_choice import ShapeChoice
from xpu.choice.trial import TrialProbe
from xpu.choice.worker import Worker

__all__ = [
    "Arm",
    "KernelTrial",
    "MemberFault",
    "Proofs",
    "ShapeChoice",
    "Subject",
    "TrialProbe",
    "Worker",
]
