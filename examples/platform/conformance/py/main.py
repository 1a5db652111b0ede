"""Drives a server with LangGraph's own Python SDK and prints one JSON line per check:
{"name", "ok", "error"?, "deviates"?, "covers"?}.

    python main.py --url http://127.0.0.1:2024 --client async|sync [--only threads.] [--auth] [--jobs 8] [--timeout 60]
                   [--covers] [--stacks] [--list]

It ends with 1 if a check failed. With --official python a failure of a check that says why LangGraph's own Python server
fails it does not count. With --auth only the checks are made that need a server with users, see auth.py.
"""

import argparse
import asyncio
import json
import logging
import os
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import assistants  # noqa: F401
import auth  # noqa: F401
import control  # noqa: F401
import crons  # noqa: F401
import fields  # noqa: F401
import protocol  # noqa: F401
import remote  # noqa: F401
import runs  # noqa: F401
import state  # noqa: F401
import store  # noqa: F401
import streams  # noqa: F401
import threads  # noqa: F401
from kit import CHECKS, Kit, Recorded, clients, methods, run_check


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--url", default="http://127.0.0.1:2024")
    p.add_argument("--client", choices=["async", "sync"], default="async")
    p.add_argument("--only", default="")
    p.add_argument("--jobs", type=int, default=8)
    p.add_argument("--timeout", type=float, default=60)
    p.add_argument("--auth", action="store_true")
    p.add_argument("--official", choices=["python"])
    p.add_argument("--covers", action="store_true")
    p.add_argument("--stacks", action="store_true")
    p.add_argument("--list", action="store_true")
    return p.parse_args()


async def every_method(t):
    never = methods(t.async_client) - Recorded.called
    # Protocol checks of the sync client use it without threads.
    never -= {"threads.stream"} if t.kind == "sync" else set()
    assert not never, f"never called: {sorted(never)}"


async def main(args):
    names = [c["name"] for c in CHECKS]
    assert len(set(names)) == len(names), "two checks have one name"
    wanted = [c for c in CHECKS if c["name"].startswith(args.only) and c["client"] in (None, args.client) and c["auth"] == args.auth]
    if args.list:
        print("\n".join(c["name"] for c in wanted))
        return 0
    if not args.only and not args.auth:
        wanted.append({"name": "client.every_method_is_called", "run": every_method, "deviates": None, "alone": True, "timeout": None})
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(64))
    both = clients(args.url, args.official)
    failures = known = 0

    async def work(queue):
        nonlocal failures, known
        while queue:
            c = queue.pop(0)
            line = await run_check(c, Kit(args.url, args.client, both, args.official), args.timeout, args.covers, args.stacks)
            print(json.dumps(line), flush=True)
            if not line["ok"]:
                if args.official and c["deviates"]:
                    known += 1
                else:
                    failures += 1

    together = [c for c in wanted if not c["alone"]]
    await asyncio.gather(*(work(together) for _ in range(args.jobs)))
    await work([c for c in wanted if c["alone"]])
    passed = len(wanted) - failures - known
    text = f"{len(wanted)} checks, {passed} passed, {failures} failed"
    print(text + (f", {known} known faults of this server" if known else ""), file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    # A check of the sync client that timed out leaves a thread behind, which
    # asyncio.run would wait for.
    code = asyncio.new_event_loop().run_until_complete(main(arguments()))
    sys.stdout.flush()
    os._exit(code)
