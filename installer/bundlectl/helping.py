"""`bundlectl help`: the manual, in the language of the person who asks."""

import os
from collections.abc import Mapping

from bundlectl.call import Run
from manifests.exitcodes import ExitCode
from manifests.manual import text
from manifests.manual.topics import CHINESE, ENGLISH, NAMES, topic


def language(environ: Mapping[str, str], *, from_medium: bool = False) -> str:
    """The language that the locale asks for: that of the first variable that is set (locale(7)).

    `from_medium`: install.sh has set LC_ALL to C for its own tools, so that it says nothing.
    """
    names = ("LC_MESSAGES", "LANG") if from_medium else ("LC_ALL", "LC_MESSAGES", "LANG")
    chosen = next((environ[name] for name in names if environ.get(name)), "")
    return CHINESE if chosen.startswith("zh") else ENGLISH


def show(run: Run) -> int:
    """Print a topic, or the list of topics."""
    arguments = run.arguments
    spoken = arguments.lang or language(os.environ, from_medium=arguments.stage is not None)
    if arguments.topic is None:
        listed = text.listing(spoken)
        run.console.result({"topics": list(NAMES), "lang": spoken, "text": listed}, listed)
        return ExitCode.OK
    shown = text.render(topic(arguments.topic, spoken))
    run.console.result({"topic": arguments.topic, "lang": spoken, "text": shown}, shown)
    return ExitCode.OK
