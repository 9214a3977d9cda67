"""Ask a Hub what it has: a repository's commit, files and digests; names near a wrong one."""

import difflib
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from huggingface_hub import HfApi, ModelInfo
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from bundler.models.transport import TRANSPORT, denied, status_of, unreachable, with_retries
from manifests.errors import SourceError, UsageError
from manifests.lock import COMPUTED, PUBLISHED, ModelFile
from manifests.names import public_url

_COMMIT = re.compile(r"[0-9a-f]{40}")
#: Names asked of the Hub, and names shown.
_SEARCHED, _SHOWN = 50, 5
#: What the client's parsing raises where the answer is none, a login page for example.
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)
_NO_ANSWER: tuple[type[Exception], ...] = (*TRANSPORT, *_UNREADABLE)


#: Sentences for somebody who named a model that is not there.
Advice = Callable[[], Sequence[str]]


@dataclass(frozen=True)
class Found:
    """A repository at one commit."""

    repository: str  # as the Hub calls it today; a renamed one answers under its old name too
    commit: str
    files: Mapping[str, ModelFile]  # by path; sha256 where LFS keeps them, else git blob ids
    licence: str


def find(
    repository: str,
    revision: str,
    endpoint: str,
    timeout: float,
    pause: float,
    advice: Advice = tuple,
) -> Found:
    """Look a repository up; `timeout` and `pause` in seconds.

    Raises SourceError where the Hub can't be reached, refuses, or has no such thing (with the
    nearest names it has, and `advice`); UsageError where the name can't be one.
    """
    api = HfApi(endpoint=endpoint)
    try:
        info = with_retries(
            lambda: api.model_info(
                repository, revision=revision, files_metadata=True, timeout=timeout
            ),
            pause,
        )
        return _found(info)
    except HFValidationError:
        raise UsageError(f"{repository!r} can't be the name of a model", mend=_NAMES) from None
    except GatedRepoError as error:
        raise denied(repository, endpoint, status_of(error)) from None
    except RevisionNotFoundError:
        raise SourceError(
            f"{repository} has no revision {revision!r} on {public_url(endpoint)}",
            mend="name a branch, a tag or a commit that its page lists, or leave @REVISION out",
        ) from None
    except RepositoryNotFoundError:
        raise _unknown(api, repository, endpoint, advice) from None
    except OfflineModeIsEnabled:
        raise SourceError(
            f"{repository}: HF_HUB_OFFLINE forbids asking {public_url(endpoint)}",
            mend="unset HF_HUB_OFFLINE, or name a local folder",
        ) from None
    except HfHubHTTPError as error:
        status = status_of(error)
        if status in (401, 403):
            raise denied(repository, endpoint, status) from None
        raise unreachable(endpoint, f"it answered {status}") from None
    except TRANSPORT as error:
        raise unreachable(endpoint, str(error) or type(error).__name__) from None
    except _UNREADABLE as error:
        raise unreachable(endpoint, f"its answer is not that of a Hub ({error})") from None


_NAMES = "name a folder that exists, or ORG/NAME on the Hub"


def _found(info: ModelInfo) -> Found:
    commit = info.sha or ""
    if not _COMMIT.fullmatch(commit):
        raise ValueError(f"commit {commit!r}")
    files = {}
    for sibling in info.siblings or ():
        if sibling.size is None:
            raise ValueError(f"no size of {sibling.rfilename}")
        files[sibling.rfilename] = ModelFile(
            path=sibling.rfilename,
            size=sibling.size,
            sha256=sibling.lfs["sha256"] if sibling.lfs else "",
            git_blob="" if sibling.lfs else sibling.blob_id or "",
            # Some mirrors list names and sizes alone.
            digest_from=PUBLISHED if sibling.lfs or sibling.blob_id else COMPUTED,
        )
    return Found(info.id, commit, files, _licence(info))


def _licence(info: ModelInfo) -> str:
    """From the Hub's tags, which it derives from the model card."""
    tags: Any = info.tags or ()
    return next((tag.removeprefix("license:") for tag in tags if tag.startswith("license:")), "")


def _unknown(api: HfApi, repository: str, endpoint: str, advice: Advice) -> SourceError:
    near = _near(api, repository)
    return SourceError(
        f"{repository}: no such model on {public_url(endpoint)}, or not for you",
        why="a Hub gives the same answer for a private model without a token",
        mend="choose one of those that exist, or log in with `hf auth login`"
        if near
        else f"{_NAMES}; for a private one log in with `hf auth login`",
        findings=[*(f"there is {name}" for name in near), *advice()],
    )


def _near(api: HfApi, repository: str) -> list[str]:
    """Names on this Hub that resemble one, best first; none where it can't be searched."""
    owner, _, name = repository.rpartition("/")
    family = re.split(r"[-_]", name)[0]
    names: dict[str, None] = {}
    for author, search in ((owner or None, family), (None, name), (None, family)):
        try:
            models = api.list_models(author=author, search=search, limit=_SEARCHED)
            names.update(dict.fromkeys(model.id for model in itertools.islice(models, _SEARCHED)))
        except _NO_ANSWER:
            continue
    return difflib.get_close_matches(repository, names, _SHOWN, cutoff=0.5)
