// Items of the server's store.
import type { SearchItem } from "@langchain/langgraph-sdk";

export interface StoredItem extends SearchItem {
  /** The server's metadata about the value, such as its source. Few servers have it. */
  meta?: Record<string, unknown>;
  /** The explanation of its score, if the server returns one. */
  explanation?: Explanation;
}

/** An Explanation contains the components of a score. A missing rank means that the item was not found that way. */
export interface Explanation {
  similarity?: number;
  similarity_rank?: number;
  /** The path of the text that is most similar to the query. */
  field?: string;
  keyword?: number;
  keyword_rank?: number;
  /** The query words that the item contains. */
  terms?: string[];
}

/** An ItemChange is a version of an item, or its deletion. */
export interface ItemChange {
  kind: "put" | "deleted" | "expired" | "forgotten";
  at: string;
  value?: Record<string, unknown>;
  meta?: Record<string, unknown>;
}

/** storeKey is the prefix of the keys of all store queries. */
export const storeKey = (url: string) => [url, "store"];

export const sameItem = (
  a: Pick<StoredItem, "namespace" | "key"> | null,
  b: Pick<StoredItem, "namespace" | "key"> | null,
): boolean => !!a && !!b && a.key === b.key && a.namespace.join("\0") === b.namespace.join("\0");
