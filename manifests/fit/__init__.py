"""Does a model fit a GPU? Weights, cache and overhead from config.json and file sizes alone.

Used on both sides: the plan before anything is downloaded, the preflight on the isolated host, and
the server's defaults. `Shape.from_config` reads the model, `fit` answers.
"""

from manifests.fit.answer import Fit, Load, Room
from manifests.fit.ask import UTILIZATION, fit, fit_cpu
from manifests.fit.cache import CPU_BLOCK, GPU_BLOCK, Pages, pages, with_cpu_states
from manifests.fit.flags import CPU_CACHE, cpu_cache, flags_of, settings_of, unjudged
from manifests.fit.folder import shape_of
from manifests.fit.memory import Settings, shown
from manifests.fit.shape import Shape

__all__ = [
    "CPU_BLOCK",
    "CPU_CACHE",
    "GPU_BLOCK",
    "UTILIZATION",
    "Fit",
    "Load",
    "Pages",
    "Room",
    "Settings",
    "Shape",
    "cpu_cache",
    "fit",
    "fit_cpu",
    "flags_of",
    "pages",
    "settings_of",
    "shape_of",
    "shown",
    "unjudged",
    "with_cpu_states",
]
