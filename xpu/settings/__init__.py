"""Configuration read: families, rules, bucket policies and probe plans from layered TOML.

Every file is validated as a whole before anything is used. The orchestrator and the
command line call `load_settings`, the filter `shipped_rules`. Nothing here imports a
plugin or writes a file: what plugins declare comes in as a `Vocabulary`.
"""

from xpu.settings.build import Vocabulary
from xpu.settings.settings import Settings, load_settings, shipped_rules
from xpu.settings.written import written

__all__ = ["Settings", "Vocabulary", "load_settings", "shipped_rules", "written"]
