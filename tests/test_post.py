"""The one helper that posts JSON, against scripted peers."""

import urllib.error

import pytest

from fake_http import Peer, plain

from pdlab.live.post import post_json


def test_the_document_arrives_and_the_answer_comes_back_as_it_is():
    """The server gets the JSON, under its own type; the caller gets the answer's very bytes."""
    with Peer(lambda seen: plain("200 OK", b" {}\n")) as peer:
        assert post_json(f"{peer.url}/v1/completions", {"prompt": [1, 2]}) == b" {}\n"
        (seen,) = peer.posts()
    assert seen.path == "/v1/completions" and seen.json == {"prompt": [1, 2]}
    assert seen.headers["content-type"] == "application/json"


@pytest.mark.parametrize(("script", "error"), [
    (lambda seen: plain("503 Service Unavailable", b"{}"), urllib.error.HTTPError),
    (lambda seen: ["reset"], OSError),
    (lambda seen: ["wait"], TimeoutError),
])  # fmt: skip
def test_a_server_that_fails_is_an_os_error(script, error):
    """An HTTP error, a cut connection and silence are all OSErrors."""
    with Peer(script) as peer, pytest.raises(error) as caught:
        post_json(peer.url, {}, timeout_s=0.2)
    assert isinstance(caught.value, OSError)
