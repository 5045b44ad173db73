"""Models from a hub: `hf:org/repo[@revision][/file.gguf]`, through huggingface-hub when installed.

A repository without a file means its safetensors with configuration, tokenizer and template; pickled
weights are never asked for. Files stay in the cache that huggingface-hub keeps for every program.
"""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from unspool.errors import DownloadError, ModelNotFound
from unspool.extras import missing

_SPEC = re.compile(
    r"hf:(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w.-]+))?(?:/(?P<file>[\w./ +-]+))?", re.ASCII
)
_SNAPSHOT_FILES = ["*.safetensors", "*.json", "*.model", "*.jinja", "merges.txt", "vocab.txt"]


def resolve(spec: str, *, pull: bool = True) -> Path:
    """The local file or folder for an `hf:` spec, downloading what is missing unless `pull` is false."""
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise ModelNotFound(f"{spec!r} is not of the form hf:org/repo[@revision][/file.gguf]")
    hub = _import_hub(spec)
    repo, revision, file = match["repo"], match["revision"], match["file"]
    # It tells of each retry on its own; what comes of them is told once, by us. Its parts are loaded late,
    # and the one that logs sets the level when it is.
    with suppress(ImportError):
        import_module("huggingface_hub.utils.logging")
    log = logging.getLogger("huggingface_hub")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        if not pull:
            return _installed(hub, spec, repo, revision, file)
        if file is None:
            return _snapshot(hub, repo, revision)
        if not file.endswith((".gguf", ".safetensors")):
            raise ModelNotFound(f"{spec!r} names a file that is neither GGUF nor safetensors")
        return Path(hub.hf_hub_download(repo, file, revision=revision))
    except (ModelNotFound, DownloadError):
        raise
    except Exception as error:  # its error classes have moved between releases; all end here, typed
        raise _explain(spec, error) from error
    finally:
        log.setLevel(level)


def _snapshot(hub: Any, repo: str, revision: str | None) -> Path:
    names = hub.list_repo_files(repo, revision=revision)
    if not any(name.endswith(".safetensors") for name in names):
        ggufs = [name for name in names if name.endswith(".gguf")]
        if ggufs:
            raise ModelNotFound(f"{repo} holds GGUF files; name one of them: hf:{repo}/{ggufs[0]}")
        raise ModelNotFound(
            f"{repo} holds neither safetensors nor GGUF files; other weights are never read because a pickle "
            "can run code"
        )
    return Path(hub.snapshot_download(repo, revision=revision, allow_patterns=_SNAPSHOT_FILES))


def _installed(hub: Any, spec: str, repo: str, revision: str | None, file: str | None) -> Path:
    """What an earlier pull left, without asking the network."""
    try:
        if file is not None:
            return Path(hub.hf_hub_download(repo, file, revision=revision, local_files_only=True))
        options = {"allow_patterns": _SNAPSHOT_FILES, "local_files_only": True}
        return Path(hub.snapshot_download(repo, revision=revision, **options))
    except Exception as error:
        raise ModelNotFound(f"{spec} is not installed; `unspool models pull {spec}` fetches it") from error


def _import_hub(spec: str) -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise ModelNotFound(
            f"{spec!r} {missing('hub')}",
            code="missing_extra",
        ) from error
    return huggingface_hub


def _explain(spec: str, error: Exception) -> DownloadError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = lines[0].rstrip(".") if lines else type(error).__name__
    return DownloadError(
        f"cannot fetch {spec}: {reason}; check the name, the network and, for a gated model, "
        "that you are logged in",
        code="hub",
    )
