"""Measures LangChain's BM25Retriever and FAISS on the Cranfield collection, for comparison with `bench cranfield`.

  pip install langchain-community rank_bm25 faiss-cpu
  python bench/py/cranfield.py DIRECTORY [URL of an embedding server]

The server maps a JSON list of texts to a list of vectors, like that of `bench cranfield -embedder URL`.
"""
import json
import math
import re
import sys
import urllib.request

from langchain_community.retrievers import BM25Retriever
from langchain_community.vectorstores import FAISS
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings


def records(path):
    out, field = [], ""
    for line in open(path, encoding="utf-8"):
        if line.startswith(".I "):
            out.append({"I": line[3:].strip()})
            field = ""
        elif re.fullmatch(r"\.[A-Z]", line.strip()):
            field = line.strip()[1:]
        elif field:
            out[-1][field] = out[-1].get(field, "") + line
    return out


class Server(Embeddings):
    def __init__(self, url):
        self.url = url

    def embed_documents(self, texts):
        vectors = []
        for i in range(0, len(texts), 256):
            request = urllib.request.Request(self.url, json.dumps(texts[i : i + 256]).encode(), {"Content-Type": "application/json"})
            vectors += json.load(urllib.request.urlopen(request))
        return vectors

    def embed_query(self, text):
        return self.embed_documents([text])[0]


def measure(name, search, questions):
    recall = mrr = ndcg = 0.0
    for text, sources in questions:
        found = list(dict.fromkeys(d.metadata["id"] for d in search(text)))[:10]
        hits = [i for i, d in enumerate(found) if d in sources]
        recall += len(hits) / len(sources)
        mrr += 1 / (hits[0] + 1) if hits else 0
        ndcg += sum(1 / math.log2(i + 2) for i in hits) / sum(1 / math.log2(i + 2) for i in range(min(10, len(sources))))
    n = len(questions)
    print(f"{name:32} {recall / n:.3f} {mrr / n:.3f} {ndcg / n:.3f} {n}")


def main(directory, url=None):
    texts = [(r["I"], r["W"].strip()) for r in records(f"{directory}/cran.all.1400") if r.get("W", "").strip()]
    asked = [" ".join(r["W"].split()) for r in records(f"{directory}/cran.qry")]
    relevant = {}
    for line in open(f"{directory}/cranqrel", encoding="utf-8"):
        fields = line.split()
        if len(fields) >= 3 and not fields[2].startswith("-"):
            relevant.setdefault(int(fields[0]), set()).add(fields[1])
    questions = [(q, relevant[i]) for i, q in enumerate(asked, 1) if i in relevant]
    documents = [Document(page_content=t, metadata={"id": i}) for i, t in texts]
    print("retriever, R@10, MRR, nDCG@10, questions")
    bm25 = BM25Retriever.from_documents(documents, k=10)
    measure("BM25Retriever", bm25.invoke, questions)
    lower = BM25Retriever.from_documents(documents, k=10, preprocess_func=lambda t: re.findall(r"\w+", t.lower()))
    measure("BM25Retriever, words in lower case", lower.invoke, questions)
    if url is None:
        return
    faiss = FAISS.from_documents(documents, Server(url))
    measure("FAISS", lambda q: faiss.similarity_search(q, k=10), questions)
    both = lambda q: fuse([lower.invoke(q), faiss.similarity_search(q, k=10)])
    measure("EnsembleRetriever's fusion of both", both, questions)


def fuse(lists):
    """Reciprocal rank fusion with the constant 60, as in LangChain's EnsembleRetriever."""
    score, documents = {}, {}
    for found in lists:
        for rank, d in enumerate(found, 1):
            score[d.metadata["id"]] = score.get(d.metadata["id"], 0) + 0.5 / (rank + 60)
            documents[d.metadata["id"]] = d
    return [documents[i] for i in sorted(score, key=score.get, reverse=True)]


if __name__ == "__main__":
    main(*sys.argv[1:])
