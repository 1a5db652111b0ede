// The server that the studio talks to.
import { QueryCache, QueryClient, QueryClientProvider, useQuery } from "@tanstack/react-query";
import { createContext, useContext, useMemo, useState, type ReactNode } from "react";
import { newClient, type Client, type ServerInfo } from "../data/client";
import { httpStatusOf } from "../data/errors";
import { serverIsBack } from "../data/follow";
import { newTransport } from "../data/transport";
import { useLocation } from "./location";

export interface Connection {
  client: Client;
  /** The address of the API, without a slash at the end. */
  url: string;
  /** Whether this is the server of the page, which therefore has all of Treadle's routes. */
  own: boolean;
  /** The key to send as x-api-key, if one was entered. */
  apiKey: string | null;
  setApiKey(key: string | null): void;
}

const Context = createContext<Connection | null>(null);

let away = false;
const isInfo = (key: readonly unknown[]) => key[1] === "info";
const isAssistants = (key: readonly unknown[]) => key[1] === "assistants";

const queries = new QueryClient({
  // A server on this machine answers without a network, so requests never wait for one.
  defaultOptions: { queries: { retry: 1, staleTime: 2_000, refetchOnWindowFocus: true, networkMode: "always" } },
  queryCache: new QueryCache({
    // The first request without a response marks the server as offline; when it is back, all views reload.
    onError(err, query) {
      if (isInfo(query.queryKey)) away = true;
      // A key that is no longer valid shows first in some view. The assistants decide whether to ask for another key.
      else if (httpStatusOf(err) === 401 && !isAssistants(query.queryKey))
        void queries.invalidateQueries({ predicate: (q) => isAssistants(q.queryKey) && q.state.status === "success" });
      else if (!("status" in err)) void queries.invalidateQueries({ predicate: (q) => isInfo(q.queryKey) });
    },
    onSuccess(_, query) {
      if (!away || !isInfo(query.queryKey)) return;
      away = false;
      window.dispatchEvent(new Event(serverIsBack));
      void queries.invalidateQueries({ predicate: (q) => !isInfo(q.queryKey) });
    },
  }),
});

/** The server that serves the page is one level above it. */
const ownServer = (): string => new URL("..", window.location.href).href;

const keyOf = (url: string) => "treadle-studio-key " + url;

export function ConnectionProvider({ children }: { children: ReactNode }) {
  const { baseUrl } = useLocation();
  const url = (baseUrl ?? ownServer()).replace(/\/$/, "");
  // A key is kept only for the session, and only for its server.
  const [, entered] = useState(0);
  const apiKey = sessionStorage.getItem(keyOf(url));
  const connection = useMemo<Connection>(
    () => ({
      client: newClient(url, apiKey, newTransport(!baseUrl), !baseUrl),
      url,
      own: !baseUrl,
      apiKey,
      setApiKey(key) {
        if (key) sessionStorage.setItem(keyOf(url), key);
        else sessionStorage.removeItem(keyOf(url));
        queries.clear();
        entered((n) => n + 1);
      },
    }),
    [url, baseUrl, apiKey],
  );
  return (
    <QueryClientProvider client={queries}>
      <Context value={connection}>{children}</Context>
    </QueryClientProvider>
  );
}

export function useConnection(): Connection {
  const c = useContext(Context);
  if (!c) throw new Error("useConnection outside of ConnectionProvider");
  return c;
}

/** A ServerState is "failing" while the server responds, but only with errors. */
export type ServerState = "connecting" | "online" | "offline" | "failing" | "refused";

/** The known part of what the page's own server says about itself. */
const ownInfo: ServerInfo = { context: "treadle", flags: { search: true, spans: true } };

/** The interval at which the server is asked for what it is, to see whether it responds. */
const watched = 15_000;
/** The interval at which a server is asked again that does not respond or fails. */
const retried = 2_000;

/**
 * useServer monitors the server. Another server is asked at once for what it is, because the views depend on it. The
 * page's own server is asked later, or when a request gets no response.
 */
export function useServer() {
  const { client, url, apiKey, own } = useConnection();
  const q = useQuery({
    queryKey: [url, "info", apiKey],
    queryFn: () => client.info(),
    ...(own ? { initialData: ownInfo } : {}),
    staleTime: watched,
    refetchInterval: (q) => (q.state.error ? retried : watched),
    retry: false,
  });
  // Some servers tell everyone what they are, but require a key for the rest.
  const assistants = useAssistants();
  const failures = [q.error, assistants.failure].filter((err) => err !== null);
  const connecting = q.isPending || (own && assistants.isPending);
  const state: ServerState = failures.some((err) => refusals.includes(httpStatusOf(err) ?? 0))
    ? "refused"
    : q.isError && httpStatusOf(q.error) === undefined
      ? "offline"
      : failures.length > 0
        ? "failing"
        : connecting
          ? "connecting"
          : "online";
  return { state, info: q.data, failure: failures.at(-1) ?? null, refresh: q.refetch };
}

/** The HTTP statuses of a server that does not accept the key. */
const refusals = [401, 403];

/** useIsTreadle reports whether the server supports Treadle's extensions, which other servers may reject. */
export const useIsTreadle = (): boolean => useServer().info?.context === "treadle";

/** useAssistants lists the assistants of the server. failure is why they could not be loaded the last time, or null. */
export function useAssistants() {
  const { client, url, apiKey } = useConnection();
  const q = useQuery({
    queryKey: [url, "assistants", apiKey],
    queryFn: async () =>
      (await client.assistants.search({ limit: 1000 })).sort(
        (a, b) => a.graph_id.localeCompare(b.graph_id) || a.name.localeCompare(b.name),
      ),
    // A server that fails is asked until it works. One that does not respond is watched by useServer.
    retry: (attempt, err) => {
      const status = httpStatusOf(err);
      return status === undefined ? attempt < 1 : status === 429 || status >= 500;
    },
    retryDelay: retried,
  });
  // While the request is repeated, the query has no error yet.
  const failing = httpStatusOf(q.failureReason) === undefined ? null : q.failureReason;
  return { ...q, failure: q.error ?? failing };
}

/** useAssistant returns the selected assistant, or else the first one. */
export function useAssistant() {
  const { assistant } = useLocation();
  const { data } = useAssistants();
  return (
    data?.find((a) => a.assistant_id === assistant) ??
    data?.find((a) => a.graph_id === assistant && a.metadata?.created_by === "system") ??
    data?.[0]
  );
}

/** useSchemas returns the JSON schemas of an assistant's graph. */
export function useSchemas(assistant: string | undefined) {
  const { client, url } = useConnection();
  return useQuery({
    queryKey: [url, "schemas", assistant],
    queryFn: () => client.assistants.getSchemas(assistant!),
    enabled: !!assistant,
    staleTime: 60_000,
  });
}
