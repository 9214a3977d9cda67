"""A model on a Hub: pinned to a commit, every byte compared with the digest the Hub published.

The Hub's own client finds the model, its commit, its digests and the user's token. It does not
compare digests after a download and does not continue one after a kill, so the bytes come through
`bundler.models.download`.
"""

import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

from huggingface_hub import constants, hf_hub_url
from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # no __all__

from bundler.models import catalogue, extras
from bundler.models.card import licence_of
from bundler.models.download import Remote, download, read_small
from bundler.models.selection import check_names, select
from bundler.models.source import Snapshot, locked_rules, serialised
from manifests.checkpoint import Rules, inspect, preview
from manifests.errors import SourceError
from manifests.extras import second_repositories
from manifests.lock import Model, ModelFile
from wheelhouse.store import Progress, Store, silent

#: Files at a time. More gains nothing where one stream fills the line, and Hubs throttle.
PARALLEL = 4


_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class HubSource:
    """`repository` at `revision` (a branch, a tag or a commit) on the Hub at `endpoint`."""

    repository: str
    store: Store
    rules: Rules
    revision: str = "main"
    endpoint: str | None = None
    offline: bool = False
    timeout: float = 30  # seconds without a byte
    pause: float = 1  # seconds before the first repetition; doubles each time
    advice: catalogue.Advice = tuple

    def reads(self) -> int:
        """Nothing worth a progress bar: `lock` reads a few small files."""
        return 0

    def has(self, model: Model) -> bool:
        """Whether it is this repository's, at this commit where one was named."""
        named = f"hf:{self.repository}".casefold() == model.source.casefold()
        return named and (not _COMMIT.fullmatch(self.revision) or self.revision == model.revision)

    def lock(self, progress: Progress = silent) -> Model:  # noqa: ARG002 - the interface's
        """Pin commit and digests; get the small files and judge what can be judged by them."""
        found = self.find()
        taken, left_out = select(found.files, self.rules)
        check_names(taken)
        files = {name: found.files[name] for name in taken}
        model = Model(
            name=found.repository.rpartition("/")[2],
            source=f"hf:{found.repository}",
            revision=found.commit,
            files=tuple(files.values()),
        )
        where = f"{found.repository}@{found.commit[:12]}"
        # Where access is refused it shows at the first of them, before anything long.
        small = {file.path: self.small(model, file) for file in model.files if not file.sha256}
        paths = {name: self.store.path(file.sha256) for name, file in small.items()}
        beside = tuple(self._beside(paths))
        model = replace(model, files=(*model.files, *beside))
        small |= {file.path: self.small(model, file) for file in beside if not file.sha256}
        files |= {file.path: file for file in beside}
        check_names(files)
        risks = preview(paths, files, self.rules, where=where, left_out=left_out)
        card = paths.get("README.md")
        stated = licence_of(card.read_text("utf-8", "replace")) if card else ""
        return replace(
            model,
            files=tuple(small.get(file.path, file) for file in model.files),
            licence=stated or found.licence,
            risks=risks,
        )

    def _beside(self, paths: Mapping[str, Path]) -> Iterator[ModelFile]:
        """What the model needs of elsewhere, by what its JSON files say."""
        documents = {}
        for name, path in paths.items():
            if name.endswith(".json"):
                with suppress(ValueError, RecursionError):  # told by whoever judges the model
                    documents[name] = json.loads(path.read_bytes())
        yield from extras.vocabularies(documents)
        if self.rules.remote_code:
            for repository in second_repositories(documents):
                yield from extras.code_of(repository, self._second(repository))

    def _second(self, repository: str) -> catalogue.Found:
        try:
            return replace(self, repository=repository, revision="main").find()
        except SourceError as error:
            raise SourceError(
                f"{self.repository}: its `auto_map` loads code of a second repository: "
                f"{error.what}",
                why=error.why,
                mend=error.mend,
            ) from None

    def find(self) -> catalogue.Found:
        """What the Hub says of the repository.

        Raises SourceError, as without a network.
        """
        if self.offline:
            raise SourceError(
                f"{self.repository}: not locked yet, and --offline forbids asking the Hub",
                mend="run once without --offline, or name a local folder",
            )
        return catalogue.find(
            self.repository,
            self.revision,
            self._endpoint(),
            self.timeout,
            self.pause,
            self.advice,
        )

    def fetch(self, model: Model, progress: Progress = silent) -> Snapshot:
        """Fill the store with the locked files, and judge the whole."""
        files = self.fetch_files(model, progress)
        paths = {file.path: self.store.path(file.sha256) for file in files}
        where = f"{self.repository}@{model.revision[:12]}"
        checkpoint = inspect(paths, locked_rules(self.rules, model), where=where)
        return Snapshot(replace(model, files=files), paths, checkpoint)

    def fetch_files(self, model: Model, progress: Progress = silent) -> tuple[ModelFile, ...]:
        """Fill the store with the locked files, several at a time; what is there is not asked for.

        Objects that are in the store already are hashed again before they are used.
        """
        stop, count = Event(), serialised(progress)
        with ThreadPoolExecutor(PARALLEL) as pool:
            jobs = [pool.submit(self._fetch, model, file, count, stop) for file in model.files]
            try:
                # Not in order: the first failure must end the others, not wait for them.
                for job in as_completed(jobs):
                    job.result()
            except BaseException:
                stop.set()
                pool.shutdown(cancel_futures=True)
                raise
        return tuple(job.result() for job in jobs)

    def _fetch(self, model: Model, file: ModelFile, progress: Progress, stop: Event) -> ModelFile:
        if not file.sha256 and not self.offline:
            done = self.small(model, file)
            progress(file.size)
            return done
        if made := extras.pointer(file.path, [other.path for other in model.files]):
            self.store.adopt(io.BytesIO(made))
        if file.sha256 and self.store.intact(file.sha256, file.path, progress):
            return file
        if self.offline:
            raise SourceError(
                f"{file.path}: not in the store, and --offline forbids fetching it",
                mend="run once without --offline",
            )
        download(self._remote(model, file), self.store, progress, stop)
        return file

    def small(self, model: Model, file: ModelFile) -> ModelFile:
        """A file for which only a git blob id is published, or nothing, with its sha256."""
        return replace(file, sha256=read_small(self._remote(model, file), self.store))

    def _remote(self, model: Model, file: ModelFile) -> Remote:
        repository, endpoint = model.source.removeprefix("hf:"), self._endpoint()
        if url := extras.vocabulary_url(file.path):
            return Remote(file, url, dict, repository, self.timeout, self.pause)
        place = extras.origin(file.path) or extras.Origin(repository, model.revision, file.path)
        return Remote(
            file=file,
            url=hf_hub_url(place.repository, place.path, revision=place.commit, endpoint=endpoint),
            # The token is read anew each time and kept nowhere.
            headers=build_hf_headers,
            repository=place.repository,
            timeout=self.timeout,
            pause=self.pause,
        )

    def _endpoint(self) -> str:
        # The client reads HF_ENDPOINT once, when it is imported.
        chosen = self.endpoint or os.environ.get("HF_ENDPOINT") or constants.ENDPOINT
        return chosen.rstrip("/")
