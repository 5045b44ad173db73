"""Verifiers that ask somebody else, against a server of the tests' own."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from answers import answer

from unspool.errors import BadRequest, VerifierError
from unspool.search.verifiers.http_reward import HttpReward
from unspool.search.verifiers.llm_judge import DEFAULT_PROMPT, JudgePrompt, LlmJudge


class Endpoint:
    """Answers what it is told to and remembers what it was asked."""

    def __init__(self):
        self.replies = []  # (status, body, headers), the last one again and again
        self.asked = []
        self.hangs = threading.Event()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.asked.append((self.path, json.loads(body), dict(self.headers)))
                status, said, headers = (
                    endpoint.replies.pop(0) if endpoint.replies[1:] else endpoint.replies[0]
                )
                if status == 0:
                    endpoint.hangs.wait(5)
                    return
                data = said if isinstance(said, bytes) else json.dumps(said).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def says(self, *replies):
        self.replies = [(*reply, {})[:3] for reply in replies]

    def close(self):
        self.hangs.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def endpoint(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


def test_a_reward_is_posted_for_and_read(endpoint):
    endpoint.says((200, {"results": [{"reward": 0.75}]}))
    reward = HttpReward(
        f"{endpoint.url}/score", score_field="results.0.reward", accept_at=0.5, headers={"X-Key": "secret"}
    )
    verdict = reward("Why?", answer("Because ö."))
    assert (verdict.score, verdict.accepted) == (0.75, True)
    path, body, headers = endpoint.asked[0]
    assert (path, body) == ("/score", {"prompt": "Why?", "completion": "Because ö."})
    assert headers["X-Key"] == "secret"
    assert "secret" not in repr(reward)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ((200, {"scores": 1}), "has no score: .*; score_field says where"),
        ((200, {"score": "good"}), "must be a number"),
        ((200, b'{"score": NaN}'), "must be a number, got nan; score_field says"),
        ((200, b"<html>"), "no JSON"),
        ((200, b'"' + b"x" * (1 << 20) + b'"'), "more than"),
        (
            (400, {"error": "too long"}),
            "400 Bad Request: .*too long.*; see that it is up and that url is right",
        ),
        ((302, b"", {"Location": "http://elsewhere/"}), "redirects to 'http://elsewhere/'"),
    ],
)
def test_a_reply_that_is_no_score_is_one_line(endpoint, reply, said):
    endpoint.says(reply)
    with pytest.raises(VerifierError, match=said) as caught:
        HttpReward(endpoint.url)("p", answer("a"))
    assert "\n" not in str(caught.value)
    assert len(endpoint.asked) == 1


def test_a_busy_server_is_asked_again_and_no_more_than_said(endpoint):
    endpoint.says((503, b""), (200, {"score": 1}))
    assert HttpReward(endpoint.url)("p", answer("a")).score == 1
    endpoint.says((429, b"slow down"))
    with pytest.raises(VerifierError, match="429"):
        HttpReward(endpoint.url, n_retries=2)("p", answer("a"))
    assert len(endpoint.asked) == 5


def test_a_server_that_hangs_or_is_not_there_is_named(endpoint):
    endpoint.says((0, b""))
    with pytest.raises(VerifierError, match=r"did not answer within 0\.05 s"):
        HttpReward(endpoint.url, timeout_s=0.05, n_retries=0)("p", answer("a"))
    with pytest.raises(
        VerifierError, match=r"cannot be reached: .*; start what answers there, or give another url"
    ):
        HttpReward("http://127.0.0.1:9", n_retries=0)("p", answer("a"))


@pytest.mark.parametrize(
    "url", ["ftp://x", "file:///etc/passwd", "http://", "x", "http://a b", 3, "http://x:99999"]
)
def test_only_web_addresses_are_asked(url):
    with pytest.raises(BadRequest, match="http or https"):
        HttpReward(url)


def test_a_timeout_must_be_a_time():
    with pytest.raises(BadRequest, match="timeout_s"):
        HttpReward("http://localhost", timeout_s=0)


def reply_of(text):
    return {"choices": [{"message": {"content": text}}]}


def test_a_judge_gets_both_texts_and_its_last_score_counts(endpoint, monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", "sk-1")
    endpoint.says((200, reply_of("Score: 3 at first sight, but\nScore: 8")))
    judge = LlmJudge(f"{endpoint.url}/v1/", "judge", accept_at=0.8, api_key_env="JUDGE_KEY")
    verdict = judge("Say {completion}!", answer("{prompt} done"))
    assert (verdict.score, verdict.accepted) == (0.8, True)
    path, body, headers = endpoint.asked[0]
    assert (path, body["model"], body["temperature"]) == ("/v1/chat/completions", "judge", 0)
    assert "<task>\nSay {completion}!\n</task>" in body["messages"][1]["content"]
    assert "<answer>\n{prompt} done\n</answer>" in body["messages"][1]["content"]
    assert headers["Authorization"] == "Bearer sk-1"


def test_a_prompt_of_ones_own_has_a_scale_of_its_own(endpoint):
    endpoint.says((200, reply_of("B5")))
    prompt = JudgePrompt("", "{completion}", r"B(\d)", 1, 5)
    assert LlmJudge(endpoint.url, "j", prompt)("p", answer("a")).score == 1
    assert endpoint.asked[0][1]["messages"][1]["content"] == "a"


@pytest.mark.parametrize(
    ("said", "problem"),
    [("I like it", "gave no score"), ("Score: 11", "not in"), (None, "must be text")],
)
def test_a_judge_without_a_score_has_not_judged(endpoint, said, problem):
    endpoint.says((200, reply_of(said)))
    with pytest.raises(VerifierError, match=problem):
        LlmJudge(endpoint.url, "judge")("p", answer("a"))


@pytest.mark.parametrize(
    "change",
    [{"user": "no place"}, {"score_pattern": "("}, {"score_pattern": "x"}, {"lowest": 10.0}],
)
def test_a_judges_prompt_must_be_usable(change):
    fields = {
        name: getattr(DEFAULT_PROMPT, name)
        for name in ("system", "user", "score_pattern", "lowest", "highest")
    }
    with pytest.raises(BadRequest):
        JudgePrompt(**{**fields, **change})


def test_a_key_that_is_not_there_is_missed_before_anything_runs(monkeypatch):
    monkeypatch.delenv("NO_KEY", raising=False)
    with pytest.raises(BadRequest, match="NO_KEY"):
        LlmJudge("http://localhost", "judge", api_key_env="NO_KEY")
