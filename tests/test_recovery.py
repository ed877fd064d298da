"""The router's second chance: at most one, on another server where there is one, never for a bad request."""

import pytest

from pdlab.errors import BadInput
from pdlab.live.recovery import from_name, retry_once
from pdlab.live.router_steps import Route, StepFailed, fail_at_once

P0, P1, D0, D1 = "http://p0", "http://p1", "http://d0", "http://d1"


def failed(step="prefill", kind="broken", status=502):
    return StepFailed(step, kind, "it broke", status)


@pytest.mark.parametrize("kind", ["broken", "unreachable", "deadline", "refused"])
def test_a_failed_prefill_goes_to_another_one(kind):
    """A second prefill server gets the prompt; decode stays."""
    route = retry_once([P0, P1], [D0])(failed(kind=kind), Route(D0, P0), 1)
    assert (route.prefill, route.decode) == (P1, D0)
    assert "another prefill" in route.reason


@pytest.mark.parametrize("failure", [failed(), failed("decode", "error_frame"), failed("decode", "deadline", 504)])
def test_without_another_prefill_decode_computes_the_prompt(failure):
    """A dead or frozen prefill, or a transfer that failed: decode can do it alone."""
    route = retry_once([P0], [D0])(failure, Route(D0, P0), 1)
    assert (route.prefill, route.decode) == (None, D0)
    assert "local recompute" in route.reason


@pytest.mark.parametrize("kind", ["unreachable", "broken"])
def test_a_dead_decode_is_replaced_where_the_pool_has_another(kind):
    """With a second decode server the request goes there, with a fresh prefill; else the client hears."""
    failure = failed("decode", kind)
    assert retry_once([P0], [D0, D1])(failure, Route(D0, P0), 1).decode == D1
    assert retry_once([P0], [D0])(failure, Route(D0, P0), 1) is None
    assert retry_once([], [D0, D1])(failure, Route(D0), 1) == Route(D1, None, f"retry after {kind}")


def test_there_is_no_third_attempt():
    """Two attempts are all there are, whatever happens."""
    assert retry_once([P0, P1], [D0, D1])(failed(), Route(D0, P1), 2) is None


@pytest.mark.parametrize(("status", "again"), [(400, False), (404, False), (422, False), (429, False), (500, True), (503, True)])
def test_a_bad_request_is_not_sent_twice(status, again):
    """4xx says that the request is wrong; 5xx says that the server is."""
    route = retry_once([P0], [D0])(failed("prefill", "refused", status), Route(D0, P0), 1)
    assert (route is not None) == again


def test_a_local_request_has_nowhere_else_to_go():
    """Decode that failed on its own prompt is not asked for the same again."""
    assert retry_once([P0], [D0])(failed("decode", "error_frame"), Route(D0), 1) is None


def test_modes_by_name():
    """Failing at once is the default mode; an unknown one is refused."""
    assert from_name("fail", [P0], [D0]) is fail_at_once
    assert from_name("retry", [P0], [D0])(failed(), Route(D0, P0), 1) is not None
    with pytest.raises(BadInput):
        from_name("hope", [P0], [D0])
