"""A reward model behind an HTTP endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from unspool.light_dataclass import dataclass
from unspool.search.verifiers.base import Alone, Verdict, reaches
from unspool.search.verifiers.endpoint import MAX_RETRIES, check_timeout, check_url, number_at, post_json
from unspool.search.verifiers.settings import check_accept_at, check_text, check_texts, check_whole
from unspool.types import Completion


@dataclass(frozen=True, slots=True)
class HttpReward(Alone):
    """Posts {"prompt": ..., "completion": ...} as JSON and reads a score from the reply.

    `score_field` says where in the reply, names and indices joined by dots ("results.0.score"). Redirects are
    not followed, so `headers` go to that host alone. A busy server (429, 5xx) or a broken connection is tried
    `n_retries` times more.
    """

    url: str
    score_field: str = "score"
    accept_at: float | None = None  # accept an answer with at least this score
    timeout_s: float = 30.0
    n_retries: int = 1
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold a secret

    def __post_init__(self) -> None:
        check_url("url", self.url)
        check_timeout(self.timeout_s)
        check_text("score_field", self.score_field)
        check_accept_at(self.accept_at)
        check_whole("n_retries", self.n_retries, 0, MAX_RETRIES)
        check_texts("headers", self.headers)

    def __call__(self, prompt: str, completion: Completion) -> Verdict:
        body = {"prompt": prompt, "completion": completion.text}
        reply = post_json(self.url, body, self.headers, self.timeout_s, self.n_retries)
        score = number_at(reply, self.score_field, self.url)
        return Verdict(score, reaches(score, self.accept_at))
