"""The table of preflight's checks, one module for each topic.

Every function is pure: `Needs` (from the bundle's manifest) against `Host` (bundlectl.host).
"""

from bundlectl.checks import base, driver, gpus, machine, network, storage, surroundings, variables
from bundlectl.checks.gpus import MODEL_FIT as MODEL_FIT
from bundlectl.checks.model import INFO as INFO
from bundlectl.checks.model import LEVELS as LEVELS
from bundlectl.checks.model import STOP as STOP
from bundlectl.checks.model import WARN as WARN
from bundlectl.checks.model import Check as Check
from bundlectl.checks.model import Needs as Needs
from bundlectl.checks.model import Verdict as Verdict

#: In the order in which equally bad findings are told: causes before their effects.
CHECKS = (
    *machine.CHECKS,
    *base.CHECKS,
    *driver.CHECKS,
    *gpus.CHECKS,
    *storage.CHECKS,
    *network.CHECKS,
    *surroundings.CHECKS,
    *variables.CHECKS,
)
