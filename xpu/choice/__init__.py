"""The choice among survivors: the trial, the decision, and what is remembered of it.

`ShapeChoice` decides; `KernelTrial` is its probe for real kernels, with a worker process
for code that has never run well. No vendor is known here, and no file is read or written
but through the store.
"""

from xpu.choice.fault import MemberFault
from xpu.choice.foreseen import foreseen
from xpu.choice.kernel_trial import KernelTrial
from xpu.choice.packing import Arm, On, Packer, Staging, on
from xpu.choice.proofs import Proofs
from xpu.choice.shape_choice import ShapeChoice
from xpu.choice.trial import TrialProbe
from xpu.choice.trial_job import Subject, trial_job
from xpu.choice.worker import Worker

__all__ = [
    "Arm",
    "KernelTrial",
    "MemberFault",
    "On",
    "Packer",
    "Proofs",
    "ShapeChoice",
    "Staging",
    "Subject",
    "TrialProbe",
    "Worker",
    "foreseen",
    "on",
    "trial_job",
]
