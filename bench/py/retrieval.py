"""Searches with LangChain's BM25Retriever and FAISS for the questions that `bench locomo -python` and `bench cranfield -python`
write to its input, and prints the first ten documents for each.

  pip install langchain-community rank_bm25 faiss-cpu
"""
import json
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
    yield "LangChain BM25Retriever, lower case", lower.invoke
    if not url:
        return
    faiss = FAISS.from_documents(documents, Server(url))
    near = lambda q: faiss.similarity_search(q, k=10)
    yield "LangChain FAISS", near
    yield "LangChain FAISS and BM25, fused", lambda q: fuse([lower.invoke(q), near(q)])


def main(url):
    found = {}
    for group in json.load(sys.stdin):
        documents = [Document(page_content=d["text"], metadata={"id": d["id"]}) for d in group["documents"]]
        for name, search in retrievers(documents, url):
            for question in group["questions"]:
                ids = dict.fromkeys(d.metadata["id"] for d in search(question))
                found.setdefault(name, []).append(list(ids)[:10])
    json.dump([{"name": name, "found": lists} for name, lists in found.items()], sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
