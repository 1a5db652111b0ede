"""Writes reference.json: the tokens and vectors that the tests expect. The weights are sines, as in reference_test.go.

  pip install numpy scipy tokenizers && python reference.py
"""
import json
from math import sqrt

import numpy as np
from scipy.special import erf
from tokenizers import BertWordPieceTokenizer

PIECES = [line.rstrip("\n") for line in open("vocab.txt", encoding="utf-8")]
TEXTS = [
    "", "Ada lives in Bonn.", "ada LIVED in bonn", "Zoë's café: 5 mg, $7!", "unlivable xyzzy", "naïve\u200bcat\ttab\nline",
    "日本 likes cat", "a" * 101, "don't stop…", "cat " * 300, "İi ÅÅ", "\x00\ufffd cat",
]


def numbers(seed, *shape, scale=0.05, shift=0.0):
    i = np.arange(1, np.prod(shape) + 1, dtype=np.float64)
    return (shift + scale * np.sin(i * (1 + seed / 100))).astype(np.float32).reshape(shape)


def norm(x, seed):
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) / np.sqrt(v + 1e-12) * numbers(seed, 384, shift=1.0) + numbers(seed + 1, 384)


def dense(x, seed, n):
    return x @ numbers(seed, n, x.shape[-1]).T + numbers(seed + 1, n)


def vector(ids):
    n = len(ids)
    h = numbers(1, len(PIECES), 384, scale=1)[ids] + numbers(2, 512, 384)[:n] + numbers(3, 2, 384)[0]
    h = norm(h, 4)
    for i in range(6):
        s = 100 * (i + 1)
        q, k, v = (dense(h, s + 2 * j, 384).reshape(n, 12, 32).transpose(1, 0, 2) for j in range(3))
        a = q @ k.transpose(0, 2, 1) / sqrt(32)
        a = np.exp(a - a.max(-1, keepdims=True))
        a /= a.sum(-1, keepdims=True)
        h = norm(dense((a @ v).transpose(1, 0, 2).reshape(n, 384), s + 6, 384) + h, s + 8)
        z = dense(h, s + 10, 1536)
        h = norm(dense(z * 0.5 * (1 + erf(z / sqrt(2))), s + 12, 384) + h, s + 14)
    e = h.mean(0)
    return e / np.linalg.norm(e)


if __name__ == "__main__":
    tokenizer = BertWordPieceTokenizer("vocab.txt", lowercase=True)
    tokenizer.enable_truncation(256)
    out = []
    for text in TEXTS:
        ids = tokenizer.encode(text).ids
        out.append({"text": text, "ids": ids, "vector": [round(float(x), 6) for x in vector(ids)[::16]]})
    json.dump(out, open("reference.json", "w"), ensure_ascii=True, indent=1)
