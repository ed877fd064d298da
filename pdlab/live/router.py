"""An OpenAI-compatible proxy in front of both designs, so that both are measured at one boundary.

Aggregated: each request goes to the next replica.  Disaggregated: a rule says whether its prompt
is prefilled elsewhere first (see ``router_steps`` for the protocol).  Answers are passed on chunk
by chunk as they come.  A client that goes away takes its request at the servers with it.  Every
request leaves one line in the log: where it went, and when each step was done.

    python -m pdlab.live.router --prefill http://127.0.0.1:8200 --decode http://127.0.0.1:8300

It listens on loopback only.  When it is ready it prints one JSON line with its ``url``.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import signal
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TextIO

from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    StreamReader,
    TCPConnector,
    web,
)

from pdlab.errors import BadInput
from pdlab.live import LOOPBACK, policy, recovery
from pdlab.live import router_steps as steps
from pdlab.live.placement import NO_PROMPT, Placement, Prompt
from pdlab.live.router_log import RowLog
from pdlab.live.router_options import add_arguments, check
from pdlab.live.router_steps import Journey, Recovery, Route, StepFailed

MAX_BODY_BYTES = 64 << 20
UPSTREAM_KEEPALIVE_S = 4.0  # uvicorn closes after 5 s: be the first
CLIENT_KEEPALIVE_S = 120.0

now_ns = time.monotonic_ns


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds.  ``first_token_s`` counts from the decode request and so contains the transfer."""

    prefill_s: float = 60.0
    first_token_s: float = 60.0
    request_s: float = 300.0


@dataclass(slots=True)
class Exchange:
    """One request on its way: what came, what is noted, and the answer once it has begun."""

    request: web.Request
    journey: Journey
    raw: bytes = b""
    arrived: bool = False
    body: dict[str, Any] | None = None
    prompt: Prompt = NO_PROMPT
    out: web.StreamResponse | None = None
    whole: bool = False  # the last frame is out


class Router:
    """The handlers.  One instance serves one deployment."""

    def __init__(
        self,
        placement: Placement,
        deadlines: Deadlines = Deadlines(),
        recovery: Recovery = steps.fail_at_once,
        log: RowLog | None = None,
    ) -> None:
        self.placement, self.deadlines, self.recovery, self.log = placement, deadlines, recovery, log
        self.session: ClientSession | None = None

    def app(self) -> web.Application:
        """The aiohttp application."""
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[answer_in_json])
        app.add_routes(
            [
                web.post("/v1/completions", self.generate),
                web.post("/v1/chat/completions", self.generate),
                web.post("/reset_prefix_cache", self.reset_prefix_cache),
                web.get("/v1/models", self.models),
                web.get("/health", self.health),
            ]
        )
        app.cleanup_ctx.append(self._sessions)
        return app

    async def _sessions(self, app: web.Application) -> AsyncIterator[None]:
        connector = TCPConnector(limit=0, keepalive_timeout=UPSTREAM_KEEPALIVE_S)
        # The deadlines here are the router's own; aiohttp's would cut long streams.
        async with ClientSession(
            connector=connector, timeout=ClientTimeout(total=None), auto_decompress=False
        ) as self.session:
            yield

    # ── one request ─────────────────────────────────────────────────────────────────────────

    async def generate(self, request: web.Request) -> web.StreamResponse:
        """Answer one request and log it, however it ends."""
        journey = Journey(request.headers.get(steps.REQUEST_ID) or uuid.uuid4().hex, now_ns())
        exchange = Exchange(request, journey)
        try:
            async with asyncio.timeout(self.deadlines.request_s):
                exchange.raw = await _whole(request)
                exchange.arrived = True
                if self.placement.prefill:
                    exchange.body = _json_object(exchange.raw)
                return await self._attempts(exchange)
        except BadInput as error:
            return await self._tell(exchange, "rejected", str(error), 400)
        except StepFailed as failure:
            status = "timeout" if failure.kind == "deadline" else "failed"
            return await self._tell(exchange, status, str(failure), failure.http_status)
        except TimeoutError:
            if not exchange.arrived:
                return await self._tell(exchange, "timeout", "the request's deadline passed before all of it had come", 408)
            return await self._tell(exchange, "timeout", "the request's deadline passed", 504)
        except web.HTTPException as error:
            return await self._tell(exchange, "rejected", error.text or error.reason, error.status)
        except (asyncio.CancelledError, ClientGone):
            if not exchange.whole:  # who has read the last frame may go
                journey.status, journey.error = "cancelled", "the client went away"
            raise
        except Exception as error:
            return await self._tell(exchange, "failed", unexpected(request, error), 500)
        finally:
            journey.step("done", now_ns())
            if self.log:
                self.log.write(journey.line())

    async def _attempts(self, exchange: Exchange) -> web.StreamResponse:
        """Attempts until one answers, an answer has begun, or recovery gives up."""
        routes = exchange.journey.routes
        try:
            exchange.prompt = self.placement.read(exchange.body)
        except (UnicodeError, RecursionError) as error:
            raise BadInput(f"{error}", "text of whole characters, not nested without end", "prompt") from error
        exchange.journey.prompt_tokens = exchange.prompt.tokens or None
        routes.append(self.placement.place(exchange.prompt))
        while True:
            try:
                with self.placement.answering(routes[-1]):
                    return await self._attempt(exchange, routes[-1])
            except StepFailed as failure:
                if failure.kind in ("unreachable", "broken"):  # it may come back, but with nothing in it
                    self.placement.forget(getattr(routes[-1], failure.step))
                following = None if exchange.out else self.recovery(failure, routes[-1], len(routes))
                if following is None:
                    raise
                routes.append(following)

    async def _attempt(self, exchange: Exchange, route: Route) -> web.StreamResponse:
        """Prefill where the route says so, then pass on what decode streams."""
        journey, raw = exchange.journey, exchange.raw
        if exchange.body is not None:
            transfer = await self._prefill(exchange, route.prefill) if route.prefill else None
            raw = _json_bytes(steps.decode_body(exchange.body, transfer))
        journey.step("decode_sent", now_ns())
        async with _step("decode", self.deadlines.first_token_s) as deadline:
            async with self._post(exchange, route.decode, raw, "decode") as answer:
                chunks = _chunks(answer.content)
                first = await anext(chunks, b"")
                deadline.reschedule(None)
                journey.step("first_frame", now_ns())
                if message := steps.frame_error(first):
                    raise StepFailed("decode", "error_frame", message)
                self.placement.holds(route.decode, exchange.prompt)
                return await self._stream(exchange, answer, first, chunks)

    async def _prefill(self, exchange: Exchange, server: str) -> dict[str, Any] | None:
        """The transfer parameters for decode; None when prefill's token ended the answer."""
        journey = exchange.journey
        assert exchange.body is not None
        raw = _json_bytes(steps.prefill_body(exchange.body))
        journey.step("prefill_sent", now_ns())
        with self.placement.prefilling(server, exchange.prompt):
            async with _step("prefill", self.deadlines.prefill_s):
                async with self._post(exchange, server, raw, "prefill") as answer:
                    document = await answer.read()
        journey.step("prefill_done", now_ns())
        transfer = steps.transfer_params(document)
        journey.remote_tokens = transfer.get("remote_num_tokens") if transfer else None
        return transfer

    @asynccontextmanager
    async def _post(
        self, exchange: Exchange, server: str, raw: bytes, step: str
    ) -> AsyncIterator[ClientResponse]:
        """POST to the same path of ``server``; leaving early closes the connection there."""
        assert self.session is not None
        request = exchange.request
        headers = steps.request_headers(request.headers.items(), exchange.journey.request_id)
        async with self.session.post(
            server + request.path_qs, data=raw, headers=headers, allow_redirects=False
        ) as answer:
            if answer.status >= 400:
                raise StepFailed(step, "refused", steps.error_message(await answer.read()), answer.status)
            if not 200 <= answer.status < 300:
                raise StepFailed(step, "refused", _elsewhere(answer))
            yield answer

    async def _stream(
        self, exchange: Exchange, answer: ClientResponse, first: bytes, chunks: AsyncIterator[bytes]
    ) -> web.StreamResponse:
        """Pass the answer on.  From here on a failure can only be told inside the stream."""
        journey = exchange.journey
        exchange.out = out = web.StreamResponse(
            status=answer.status, headers=steps.passed_on(answer.headers.items())
        )
        out.headers[steps.REQUEST_ID] = journey.request_id
        journey.http_status = answer.status
        await _to_client(out.prepare(exchange.request))
        chunk: bytes | None = first
        while chunk is not None:
            if message := steps.frame_error(chunk):
                journey.status, journey.error = "failed", message
            await _to_client(out.write(chunk))
            journey.frames += 1
            journey.sent_bytes += len(chunk)
            exchange.whole = chunk.strip() == steps.DONE
            chunk = await anext(chunks, None)
        await _to_client(out.write_eof())
        return out

    async def _tell(
        self, exchange: Exchange, status: str, message: str, http_status: int
    ) -> web.StreamResponse:
        """Tell the client of a failure: by the HTTP status, or in the stream that has begun."""
        journey = exchange.journey
        journey.status, journey.error = status, message
        if exchange.out is not None and exchange.out.prepared:
            await _to_client(exchange.out.write(steps.error_frame(message, http_status)))
            await _to_client(exchange.out.write_eof())
            return exchange.out
        journey.http_status = http_status
        answer = error_response(message, http_status)
        answer.headers[steps.REQUEST_ID] = journey.request_id
        if not exchange.arrived:  # the rest of it is not waited for
            answer.force_close()
        return answer

    # ── the rest of the API ─────────────────────────────────────────────────────────────────

    async def models(self, request: web.Request) -> web.Response:
        """What the first decode server (or replica) lists."""
        assert self.session is not None
        try:
            async with asyncio.timeout(self.deadlines.request_s):
                async with self.session.get(
                    self.placement.decode[0] + "/v1/models", allow_redirects=False
                ) as answer:
                    if 300 <= answer.status < 400:
                        return error_response(_elsewhere(answer), 502)
                    return web.Response(
                        body=await answer.read(), status=answer.status, content_type="application/json"
                    )
        except TimeoutError:
            return error_response("the request's deadline passed", 504)
        except ClientError as error:
            return error_response(str(error), 502)

    async def reset_prefix_cache(self, request: web.Request) -> web.Response:
        """Empty every server's prefix cache, and with it what is believed of them; 502 where one fails."""
        assert self.session is not None
        self.placement.forget()
        try:
            async with asyncio.timeout(self.deadlines.request_s):
                for server in (*self.placement.prefill, *self.placement.decode):
                    async with self.session.post(
                        f"{server}/reset_prefix_cache", raise_for_status=True, allow_redirects=False
                    ) as answer:
                        if 300 <= answer.status < 400:
                            return error_response(_elsewhere(answer), 502)
        except TimeoutError:
            return error_response("the request's deadline passed", 504)
        except ClientError as error:
            return error_response(str(error), 502)
        return web.json_response({})

    async def health(self, request: web.Request) -> web.Response:
        """200 when every server is healthy; 503 with the list when one is not."""
        servers = [*self.placement.prefill, *self.placement.decode]
        states = dict(zip(servers, await asyncio.gather(*map(self._healthy, servers)), strict=True))
        return web.json_response(states, status=200 if all(states.values()) else 503)

    async def _healthy(self, server: str) -> bool:
        assert self.session is not None
        try:
            async with self.session.get(
                server + "/health", timeout=ClientTimeout(total=5), allow_redirects=False
            ) as answer:
                return answer.status == 200
        except (ClientError, TimeoutError):
            return False


class ClientGone(Exception):
    """The client closed its connection: nobody is left to answer."""


def error_response(message: str, http_status: int) -> web.Response:
    """An error as OpenAI's API words it, as a whole answer."""
    return web.json_response(steps.error_body(message, http_status), status=http_status)


def unexpected(request: web.Request, error: Exception) -> str:
    """Say on stderr, in one line, that the router itself failed; the same for the client."""
    said = " ".join(f"{type(error).__name__}: {error}".split())[: steps.ERROR_CHARS]
    print(f"router: {request.method} {request.path}: {said}", file=sys.stderr, flush=True)
    return f"the router failed: {said}"


@web.middleware
async def answer_in_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Every request ends with an answer of the API's own form, whatever goes wrong."""
    try:
        return await handler(request)
    except web.HTTPException as error:  # no such path, or not by this method
        answer = error_response(error.text or error.reason, error.status)
        answer.headers.update({name: value for name, value in error.headers.items() if name == "Allow"})
        return answer
    except ClientGone:
        return web.Response(status=499)  # nobody reads it; aiohttp wants one
    except Exception as error:
        return error_response(unexpected(request, error), 500)


async def _whole(request: web.Request) -> bytes:
    """The request's body, decoded."""
    named = request.headers.get("Content-Encoding", "identity").strip().lower()
    if named not in (*steps.DECODED, "identity", ""):
        raise BadInput(f"Content-Encoding {named!r}", "gzip, deflate or none", "request body")
    try:
        return await request.read()
    except web.RequestPayloadError as error:
        raise BadInput(" ".join(f"what cannot be read ({error})".split()), "a body as its headers say", "request body") from error


def _elsewhere(answer: ClientResponse) -> str:
    return f"HTTP {answer.status}, which is no answer (redirects are not followed)"


async def _to_client(write: Awaitable[Any]) -> None:
    """Await a write to the client, so that its failure is not taken for the server's."""
    try:
        await write
    except ConnectionError as error:
        raise ClientGone from error


@asynccontextmanager
async def _step(name: str, deadline_s: float) -> AsyncIterator[asyncio.Timeout]:
    """A step with its deadline; whatever goes wrong at the server leaves it as StepFailed."""
    timeout = asyncio.timeout(deadline_s)
    try:
        async with timeout:
            yield timeout
    except TimeoutError:
        raise StepFailed(name, "deadline", f"no answer in {deadline_s:g} s", 504) from None
    except ClientConnectorError as error:
        raise StepFailed(name, "unreachable", str(error)) from error
    except ClientError as error:
        raise StepFailed(name, "broken", f"the connection broke: {error}") from error


async def _chunks(content: StreamReader) -> AsyncIterator[bytes]:
    """The upstream's HTTP chunks, whole: one frame in, one frame out."""
    parts: list[bytes] = []
    async for data, ends in content.iter_chunks():
        if data:
            parts.append(data)
        if ends and parts:
            yield parts[0] if len(parts) == 1 else b"".join(parts)
            parts.clear()
    if parts:
        yield b"".join(parts)


def _json_object(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{error}", "a JSON object", "request body") from error
    if not isinstance(body, dict):
        raise BadInput(f"a {type(body).__name__}", "a JSON object", "request body")
    return body


def _json_bytes(body: dict[str, Any]) -> bytes:
    try:
        return json.dumps(body).encode()
    except RecursionError as error:  # it could just be read
        raise BadInput(f"{error}", "a JSON object", "request body") from error


# ── the process ─────────────────────────────────────────────────────────────────────────────


async def serve(router: Router, port: int, ready: TextIO, until_stdin_closes: bool) -> None:
    """Serve on loopback until SIGINT, SIGTERM or, if asked, the end of stdin."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if until_stdin_closes:  # the program that started us is gone
        loop.add_reader(sys.stdin, lambda: stop.set() if not sys.stdin.buffer.read1(64) else None)
    runner = web.AppRunner(
        router.app(),
        access_log=None,
        handler_cancellation=True,  # a client that goes away cancels its request upstream
        keepalive_timeout=CLIENT_KEEPALIVE_S,
        shutdown_timeout=2.0,
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, LOOPBACK, port)
        try:
            await site.start()
        except OSError as error:
            raise BadInput(f"port {port} ({error.strerror})", "a port that is free", "--port") from None
        bound = runner.addresses[0][1]
        print(json.dumps({"url": f"http://{LOOPBACK}:{bound}"}), file=ready, flush=True)
        gc.collect()
        gc.freeze()  # what lives for ever need not be looked at while frames pass
        await stop.wait()
    finally:
        await runner.cleanup()


def run(args: argparse.Namespace) -> int:
    """Run a router from parsed options."""
    if bool(args.worker) == bool(args.decode) or (args.prefill and not args.decode):
        raise BadInput(
            f"{len(args.worker)} --worker, {len(args.prefill)} --prefill, {len(args.decode)} --decode",
            "--worker for aggregated servers, or --prefill and --decode",
        )
    check(args)
    placement = Placement(
        [u.rstrip("/") for u in args.worker or args.decode],
        [u.rstrip("/") for u in args.prefill],
        policy.rule_from_name(args.policy),
        args.prefill_choice,
        args.block_size,
        args.cache_blocks,
    )
    deadlines = Deadlines(args.prefill_deadline, args.first_token_deadline, args.request_deadline)
    recover = recovery.from_name(args.on_failure, placement.prefill, placement.decode)
    log = RowLog(args.log) if args.log else None
    reports = logging.StreamHandler()
    reports.setFormatter(OneLine())
    logging.getLogger("aiohttp").addHandler(reports)
    try:
        asyncio.run(serve(Router(placement, deadlines, recover, log), args.port, sys.stdout, args.until_stdin_closes))
    finally:
        if log:
            log.close()
    return 1 if log and log.lost else 0


class OneLine(logging.Formatter):
    """What aiohttp itself reports (a client that breaks off, say), without its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else ""
        return " ".join(f"router: {record.getMessage()}: {error}".split())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m pdlab.live.router", description=__doc__.splitlines()[0])
    add_arguments(parser)
    try:
        return run(parser.parse_args(arguments))
    except BadInput as error:
        print(f"router: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
