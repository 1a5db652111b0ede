"""Serves a reranker for `bench locomo -reranker` and `bench cranfield -reranker`: late interaction with the token states of an
encoder. A text scores the mean, over the tokens of the query, of the greatest cosine with one of its own tokens.

  pip install onnxruntime tokenizers numpy
  python rerank.py PORT MODEL.onnx TOKENIZER.json
"""
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

port, model, tokenizer = sys.argv[1:]
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
inputs = [i.name for i in session.get_inputs()]
tokenizer = Tokenizer.from_file(tokenizer)
tokenizer.no_padding()
tokenizer.enable_truncation(512)
kept = {}


def states(text):
    """Returns the states of the tokens of a text, of length 1, without the marks at its ends."""
    if text not in kept:
        ids = np.array([tokenizer.encode(text).ids], dtype=np.int64)
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        out = session.run(None, {name: given[name] for name in inputs})[0][0][1:-1]
        kept[text] = (out / np.linalg.norm(out, axis=1, keepdims=True)).astype(np.float16)
    return kept[text].astype(np.float32)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        query = states(asked["query"])
        scores = [(query @ states(text).T).max(axis=1).mean() for text in asked["documents"]]
        body = json.dumps({"results": [{"index": i, "relevance_score": float(s)} for i, s in enumerate(scores)]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


HTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()
