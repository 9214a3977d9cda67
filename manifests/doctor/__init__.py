"""What is wrong with a server: known failures as data, compared with its log and its host.

`rules` holds the table (one TOML file for each topic), `logfile` reads a log of any size, `lines`
takes a logger's decoration off, `matching` finds the rules that a log speaks of, `ranking` orders
them by evidence, `report` tells it. Nothing here asks the host anything: what was asked of it comes
in as `Answer`s, and on another machine there are none.
"""

from manifests.doctor.logfile import Log as Log
from manifests.doctor.logfile import from_text as from_text
from manifests.doctor.logfile import read as read
from manifests.doctor.logfile import read_stream as read_stream
from manifests.doctor.ranking import Answer as Answer
from manifests.doctor.report import Diagnosis as Diagnosis
from manifests.doctor.report import diagnose as diagnose
