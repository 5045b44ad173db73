"""--model and its companions as one value: which model answers, and what of this machine it gets.

The options themselves are in options.py; nothing here brings their machinery.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from unspool.cli import amounts
from unspool.cli.contrast import contrasted, no_amateur, saying
from unspool.light_dataclass import dataclass
from unspool.models.catalogue import DEFAULT_MODEL

if TYPE_CHECKING:
    from typing_extensions import Self

    from unspool.cli.decoding import Decoding
    from unspool.engine.limits import Limits
    from unspool.llm import LLM
    from unspool.loading import Check

NAMES: Final = ("model", "amateur", "threads", "context", "kv", "runner", "weights")  # of options
CONTRAST: Final = "contrast"  # how much of the amateur: parameters of the decoding


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """What was typed, read. Make one with `of`, which checks what can be before a model is there."""

    name: str
    amateur: str | None
    n_threads: int | None
    context: int | None
    kv: Mapping[str, Any]  # settings of LLM
    runner: str
    weights: str | None

    @classmethod
    def of(
        cls,
        *,
        model: str = DEFAULT_MODEL,
        amateur: str | None = None,
        threads: str | None = None,
        context: str | None = None,
        kv: str | None = None,
        runner: str = "native",
        weights: str | None = None,
    ) -> Self:
        """The options as typed. Raises BadRequest."""
        return cls(
            model,
            amateur,
            amounts.threads(threads),
            amounts.count("--context", context),
            amounts.kv_size(kv),
            runner,
            weights,
        )

    def beside(self, decoding: Decoding) -> Decoding:
        """The decoding with the amateur beside it. Raises BadRequest for one without the other."""
        return contrasted(decoding, self.amateur)

    def load(self, *, quiet: bool, limits: Limits | None = None, check: Check | None = None) -> LLM:
        """The model, pulled where it is missing, and the amateur beside it; `check` may refuse it before the
        work of loading."""
        from unspool.cli.load import load_llm

        return load_llm(
            self.name,
            threads=self.n_threads,
            context=self.context,
            kv=self.kv,
            runner=self.runner,
            quiet=quiet,
            amateur=self.amateur,
            weights=self.weights,
            limits=limits,
            check=check,
        )


def gathered(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a command by name, with `model` as ModelOptions in the place of all that are about it,
    and what --contrast says in `decoding`. What was not typed may be missing. Raises BadRequest."""
    model = ModelOptions.of(**{name: given[name] for name in NAMES if name in given})
    contrast = given.get(CONTRAST)
    decoding = saying(given["decoding"], contrast)
    # beta=0 is no contrast, by either option; alpha alone is one, of the usual beta.
    if contrast is not None and model.amateur is None and decoding.typed.get("contrast_beta") != 0:
        raise no_amateur(f"--contrast {contrast}")
    rest = {name: value for name, value in given.items() if name not in (*NAMES, CONTRAST)}
    return {**rest, "model": model, "decoding": decoding}
