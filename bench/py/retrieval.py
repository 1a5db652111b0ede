"""Measures LangChain's BM25Retriever and FAISS on the documents and questions that `bench locomo -python` and
`bench cranfield -python` write to its input.

  pip install langchain-community rank_bm25 faiss-cpu
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


class Server(Embeddings):
    """A server that maps a JSON list of texts to a list of vectors."""

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


def measure(search, questions):
    """Returns the sums of recall, reciprocal rank, and nDCG of the first ten."""
    recall = mrr = ndcg = 0.0
    for q in questions:
        sources = set(q["sources"])
        found = list(dict.fromkeys(d.metadata["id"] for d in search(q["text"])))[:10]
        hits = [i for i, d in enumerate(found) if d in sources]
        recall += len(hits) / len(sources)
        mrr += 1 / (hits[0] + 1) if hits else 0
        ndcg += sum(1 / math.log2(i + 2) for i in hits) / sum(1 / math.log2(i + 2) for i in range(min(10, len(sources))))
    return recall, mrr, ndcg


def fuse(lists):
    """Reciprocal rank fusion with the constant 60, as in LangChain's EnsembleRetriever."""
    score, documents = {}, {}
    for found in lists:
        for rank, d in enumerate(found, 1):
            score[d.metadata["id"]] = score.get(d.metadata["id"], 0) + 0.5 / (rank + 60)
            documents[d.metadata["id"]] = d
    return [documents[i] for i in sorted(score, key=score.get, reverse=True)]


def retrievers(documents, url):
    bm25 = BM25Retriever.from_documents(documents, k=10)
    yield "LangChain BM25Retriever", bm25.invoke
    lower = BM25Retriever.from_documents(documents, k=10, preprocess_func=lambda t: re.findall(r"\w+", t.lower()))
    yield "  with words in lower case", lower.invoke
    if not url:
        return
    faiss = FAISS.from_documents(documents, Server(url))
    near = lambda q: faiss.similarity_search(q, k=10)
    yield "LangChain FAISS", near
    yield "  fused with BM25, lower case", lambda q: fuse([lower.invoke(q), near(q)])


def main(url):
    sums, asked = {}, 0
    for group in json.load(sys.stdin):
        documents = [Document(page_content=d["text"], metadata={"id": d["id"]}) for d in group["documents"]]
        asked += len(group["questions"])
        for name, search in retrievers(documents, url):
            before = sums.get(name, (0, 0, 0))
            sums[name] = tuple(a + b for a, b in zip(before, measure(search, group["questions"])))
    print("retriever, recall@10, MRR, nDCG@10, questions")
    for name, (recall, mrr, ndcg) in sums.items():
        print(f"{name:32} {recall / asked:.3f} {mrr / asked:.3f} {ndcg / asked:.3f} {asked}")


if __name__ == "__main__":
    main(sys.argv[1])
