"""What the checks share: their list, clients, shortcuts, and the record of the requests they make."""

import asyncio
import contextvars
import inspect
import json
import re
import threading
import time
import traceback
import uuid as uuids
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
from langgraph_sdk import get_client, get_sync_client
from langgraph_sdk.errors import APIStatusError

CHECKS = []
UNKNOWN = "00000000-0000-4000-8000-000000000000"
GRAPHS = ["agent", "hitl", "nested", "fanout", "custom", "slow", "failing", "configurable", "memory", "router"]
WEATHER = {"messages": [{"role": "user", "content": "what is the weather", "id": "h1"}]}
# A run that has not ended when it is cancelled, also on a machine that is busy.
LONG = {"count": 60, "delay_ms": 250}

# The requests of the check that runs, by endpoint, with the keys of their bodies and queries.
seen = contextvars.ContextVar("seen", default=None)


def check(name, *, deviates=None, client=None, auth=False, alone=False, timeout=None):
    """Adds a check.

    deviates: why LangGraph's own Python server fails it; client: "async" or "sync" if it is about one of the two;
    auth: it needs a server with users; alone: it must not run beside others; timeout: in seconds, if the usual one is too short.
    """

    def add(run):
        CHECKS.append({"name": name, "run": run, "deviates": deviates, "client": client, "auth": auth, "alone": alone, "timeout": timeout})
        return run

    return add


def fields_of(body):
    """The keys of a body, those of objects that the API describes, and the method and the parameters of a command."""
    keys = set(body)
    for name in ("checkpoint", "command", "config", "ttl"):
        if isinstance(body.get(name), dict):
            keys |= {f"{name}.{key}" for key in body[name]}
    if isinstance(method := body.get("method"), str):
        keys |= {f"method {method}"} | {f"method {method} {key}" for key in body.get("params") or {}}
    return keys


def note(request: httpx.Request):
    at = seen.get()
    if at is None:
        return
    path = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "{id}", request.url.path)
    path = re.sub(r"^/assistants/(?!search$|count$)[^/]+", "/assistants/{id}", path)
    path = re.sub(r"/subgraphs/.+", "/subgraphs/{namespace}", path)
    keys = {"?" + k for k in request.url.params.keys()}
    try:
        body = json.loads(request.content or b"null")
        for part in body if isinstance(body, list) else [body]:
            if isinstance(part, dict):
                keys |= fields_of(part)
    except ValueError:
        pass  # a body that is no JSON on purpose
    at.setdefault(f"{request.method} {path}", set()).update(keys)


async def note_async(request: httpx.Request):
    note(request)


# The paths of requests whose answers have begun.
answered = set()


def note_answer(response: httpx.Response):
    answered.add(response.request.url.path)


async def note_answer_async(response: httpx.Response):
    note_answer(response)


class Threaded:
    """The sync client with the async client's interface: each call runs in a thread."""

    STREAMS = {"stream", "join_stream"}

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        value = getattr(self._inner, name)
        if not callable(value):
            return Threaded(value)
        if name in self.STREAMS:
            return lambda *args, **kwargs: self._iterate(value, args, kwargs)

        async def call(*args, **kwargs):
            return await asyncio.to_thread(value, *args, **kwargs)

        return call

    @staticmethod
    async def _iterate(fn, args, kwargs):
        parts = iter(await asyncio.to_thread(fn, *args, **kwargs))
        end = object()
        try:
            while (part := await asyncio.to_thread(next, parts, end)) is not end:
                yield part
        finally:
            await asyncio.to_thread(parts.close)


PARTS = ["assistants", "threads", "runs", "crons", "store"]


def methods(client):
    """The names of all methods of a client."""
    return {f"{part}.{name}" for part in PARTS for name, _ in inspect.getmembers(getattr(client, part), callable) if not name.startswith("_")}


class Recorded:
    """A client that notes which of its methods are called."""

    called = set()

    def __init__(self, inner, path=""):
        self._inner, self._path = inner, path

    def __getattr__(self, name):
        value = getattr(self._inner, name)
        if name in PARTS:
            return Recorded(value, name)
        self.called.add(f"{self._path}.{name}")
        return value


class Kit:
    """The argument of a check."""

    users = {}  # their clients

    def __init__(self, url, kind, clients, official=None):
        self.url, self.kind, self.official = url, kind, official
        self.async_client, self.sync_client = clients
        self.client = self._chosen(clients)
        self.web = self.async_client.http.client  # for requests without the SDK
        self._ends = []

    def _chosen(self, clients):
        return Recorded(clients[0] if self.kind == "async" else Threaded(clients[1]))

    def user(self, name):
        """A client of a user, on a server with users."""
        if name not in self.users:  # for all checks, because making a client takes long
            self.users[name] = clients(self.url, self.official, {"authorization": f"Bearer {name}-token"})
        return self._chosen(self.users[name])

    def later(self, fn):
        """Runs fn when the check has ended."""
        self._ends.append(fn)

    async def end(self):
        for fn in self._ends:
            try:
                out = fn()
                if inspect.isawaitable(out):
                    await asyncio.wait_for(out, 5)
            except Exception:
                pass

    async def thread(self, graph=None, input=None, **options):
        """Makes a thread, and runs a graph on it if one is given."""
        made = await self.client.threads.create()
        if graph:
            await self.client.runs.wait(made["thread_id"], graph, input=input, raise_error=False, **options)
        return made["thread_id"]

    async def state(self, thread, **options):
        return await self.client.threads.get_state(thread, **options)

    async def running(self, thread, run):
        async def begun():
            return (await self.client.runs.get(thread, run))["status"] != "pending"

        return await until(begun, "the run to begin")

    async def ended(self, thread, run):
        async def over():
            r = await self.client.runs.get(thread, run)
            return r if r["status"] not in ("pending", "running") else None

        return await until(over, "the run to end")

    async def ticked(self, thread, n=1):
        async def enough():
            values = (await self.state(thread))["values"] or {}
            return len(values.get("ticks", [])) >= n

        return await until(enough, f"{n} ticks")

    def receiver(self):
        """A web server that keeps what it is sent."""
        got = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                got.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *args):
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.later(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}/hook", got


def patient(a, s):
    """Repeats a request whose connection breaks: LangGraph's server closes idle ones, now and then just when one is used again."""
    send_async, send = a.handle_async_request, s.handle_request
    broken = (httpx.ReadError, httpx.RemoteProtocolError)

    async def again_async(request):
        try:
            return await send_async(request)
        except broken:
            return await send_async(request)

    def again(request):
        try:
            return send(request)
        except broken:
            return send(request)

    a.handle_async_request, s.handle_request = again_async, again


def clients(url, official, headers=None):
    a, s = get_client(url=url, api_key=None, headers=headers), get_sync_client(url=url, api_key=None, headers=headers)
    if official:
        patient(a.http.client._transport, s.http.client._transport)
    a.http.client.event_hooks["request"].append(note_async)
    s.http.client.event_hooks["request"].append(note)
    a.http.client.event_hooks["response"].append(note_answer_async)
    s.http.client.event_hooks["response"].append(note_answer)
    return a, s


async def run_check(c, kit, timeout, covers, stacks):
    line = {"name": c["name"], "ok": True}
    requests = {}
    token = seen.set(requests)
    try:
        await asyncio.wait_for(c["run"](kit), c["timeout"] or timeout)
    except BaseException as err:
        if isinstance(err, KeyboardInterrupt):
            raise
        line["ok"] = False
        line["error"] = f"{type(err).__name__}: {err}"[:2000]
        if stacks:
            line["stack"] = traceback.format_exc()
    finally:
        seen.reset(token)
    await kit.end()
    if c["deviates"]:
        line["deviates"] = c["deviates"]
    if covers:
        line["covers"] = {k: sorted(v) for k, v in requests.items()}
    return line


async def until(fn, what="a condition", seconds=20):
    end = time.monotonic() + seconds
    while True:
        value = fn()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain for {what}")
        await asyncio.sleep(0.04)


async def collect(stream):
    return [part async for part in stream]


def data_of(parts, event):
    return [p.data for p in parts if p.event == event]


def events_of(parts):
    return [p.event for p in parts]


def eq(got, want, about=""):
    assert got == want, f"{about + ': ' if about else ''}got {show(got)}, want {show(want)}"


def has(got, want, path="$"):
    """got contains want: dicts may have more keys, lists are as long."""
    if isinstance(want, dict):
        assert isinstance(got, dict), f"{path}: got {show(got)}, want {show(want)}"
        for key, value in want.items():
            assert key in got or value is None, f"{path}: no {key} in {show(got)}"
            has(got.get(key), value, f"{path}.{key}")
    elif isinstance(want, list):
        assert isinstance(got, list) and len(got) == len(want), f"{path}: got {show(got)}, want {show(want)}"
        for i, value in enumerate(want):
            has(got[i], value, f"{path}[{i}]")
    else:
        assert got == want, f"{path}: got {show(got)}, want {show(want)}"


async def fails(awaitable, *statuses):
    try:
        value = await awaitable
    except APIStatusError as err:
        assert not statuses or err.status_code in statuses, f"status {err.status_code}, want {statuses}: {err}"
        return err
    except httpx.HTTPStatusError as err:
        status = err.response.status_code
        assert not statuses or status in statuses, f"status {status}, want {statuses}: {err}"
        return err
    except Exception as err:
        assert not statuses, f"{type(err).__name__}: {err}, want {statuses}"
        return err
    raise AssertionError(f"no failure but {show(value)}")


def show(value):
    return json.dumps(value, default=str)[:600]


def uuid():
    return str(uuids.uuid4())


def id_of(graph):
    """The id of a graph's default assistant."""
    return str(uuids.uuid5(uuids.UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8"), graph))


def is_time(text):
    datetime.fromisoformat(text.replace("Z", "+00:00"))
    return True


def is_uuid(text):
    return str(uuids.UUID(text)) == text
