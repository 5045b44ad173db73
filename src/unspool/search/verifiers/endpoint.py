"""JSON over HTTP for verifiers that ask somebody else, with every failure as one line."""

from __future__ import annotations

import json
import math
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, Final

from unspool.errors import BadRequest, VerifierError, brief, named

MAX_REPLY_BYTES: Final = 1 << 20
MAX_RETRIES: Final = 100
_SCORE_IS: Final = f"{named('score_field')} says where the score is"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would turn a POST into a GET, and could take the headers to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


def check_url(name: str, url: str) -> None:
    """Raise BadRequest for a setting that is no http or https address."""
    try:
        parts = urllib.parse.urlsplit(url)
        is_sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (ValueError, TypeError, AttributeError):
        is_sound = False
    if not is_sound or any(c.isspace() or ord(c) < 32 for c in url):
        raise BadRequest(
            f"{named(name)} must be an http or https address, got {brief(url)}",
            way_out="for example http://localhost:8000/score",
            code="bad_verifier",
        )


def check_timeout(timeout_s: float) -> None:
    is_number = isinstance(timeout_s, (int, float)) and not isinstance(timeout_s, bool)
    if not is_number or not 0 < timeout_s < math.inf:
        raise BadRequest(
            f"{named('timeout_s')} must be a number above 0, got {brief(timeout_s)}",
            way_out="it is in seconds, 30 is usual",
            code="bad_verifier",
        )


def post_json(url: str, body: Any, headers: Mapping[str, str], timeout_s: float, n_retries: int) -> Any:
    """What a URL answers to a POST. Raises VerifierError.

    Tries again, at once, where the server was busy or the connection broke; never where it refused.
    """
    data = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
    given = {"Content-Type": "application/json", "Accept": "application/json", **headers}
    request = urllib.request.Request(url, data, given, method="POST")
    opener = urllib.request.build_opener(_NoRedirects)
    for n_left in range(n_retries, -1, -1):
        try:
            with opener.open(request, timeout=timeout_s) as reply:
                said = reply.read(MAX_REPLY_BYTES + 1)
            return _parsed(url, said)
        except VerifierError:
            raise
        except urllib.error.HTTPError as error:
            with error:
                if n_left == 0 or (error.code < 500 and error.code != 429):
                    raise VerifierError(_refusal(url, error)) from None
        except TimeoutError as error:
            if n_left == 0:
                raise _too_late(url, timeout_s) from error
        except (OSError, ValueError, EOFError) as error:
            if n_left == 0:
                reason = getattr(error, "reason", error)
                if isinstance(reason, TimeoutError):
                    raise _too_late(url, timeout_s) from error
                raise VerifierError(
                    f"{url} cannot be reached: {brief(str(reason))}; start what answers there, or give "
                    f"another {named('url')}"
                ) from error
        except Exception as error:  # http.client has errors that are no OSError
            if n_left == 0:
                raise VerifierError(
                    f"{url} answered badly: {brief(str(error))}; it must speak HTTP, or give another "
                    f"{named('url')}"
                ) from error
    raise AssertionError("the last try returns or raises")


def _too_late(url: str, timeout_s: float) -> VerifierError:
    return VerifierError(
        f"{url} did not answer within {timeout_s:g} s; raise {named('timeout_s')}, or see what it does"
    )


def number_at(reply: Any, path: str, url: str) -> float:
    """A finite number of a reply, where names and indices are joined by dots. Raises VerifierError."""
    value = value_at(reply, path, url, _SCORE_IS)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise VerifierError(f"{url}: {path} must be a number, got {brief(value)}; {_SCORE_IS}")
    return float(value)


def value_at(reply: Any, path: str, url: str, way_out: str) -> Any:
    """A value of a reply. Raises VerifierError, which ends with the way out."""
    value = reply
    for name in path.split("."):
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isascii() and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            raise VerifierError(f"{url}: the reply has no {path}: {brief(reply)}; {way_out}")
    return value


def _parsed(url: str, data: bytes) -> Any:
    if len(data) > MAX_REPLY_BYTES:
        raise VerifierError(f"{url}: the reply has more than {MAX_REPLY_BYTES} bytes")
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise VerifierError(
            f"{url}: the reply is no JSON: {brief(data[:80])}; give the {named('url')} of what answers "
            "in JSON"
        ) from None


def _refusal(url: str, error: urllib.error.HTTPError) -> str:
    where = error.headers.get("Location") if error.headers is not None else None
    if 300 <= error.code < 400 and where:
        return f"{url} redirects to {brief(where)}; give that address"
    try:
        said = error.read(200).decode("utf-8", "replace")
    except OSError:
        said = ""
    told = f": {brief(said)}" if said.strip() else ""
    answered = f"{url} answered {error.code} {error.reason}{told}"
    return f"{answered}; see that it is up and that {named('url')} is right"
