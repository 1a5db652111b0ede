// The server that the studio talks to.
import { Client } from "@langchain/langgraph-sdk/client";
import { QueryCache, QueryClient, QueryClientProvider, useQuery } from "@tanstack/react-query";
import { createContext, useContext, useMemo, useState, type ReactNode } from "react";
import { useLocation } from "./location";

export interface Connection {
  client: Client;
  /** The address of the API, without a slash at the end. */
  url: string;
  /** The key that is sent as x-api-key, if one was entered. */
  apiKey: string | null;
  setApiKey(key: string | null): void;
  /** request calls the API itself, for the few fields that the SDK does not send. */
  request(method: string, path: string, body?: unknown): Promise<unknown>;
}

const Context = createContext<Connection | null>(null);

let away = false;
const isInfo = (key: readonly unknown[]) => key[1] === "info";

const queries = new QueryClient({
  // A server on this machine answers without a network, so requests never wait for one.
  defaultOptions: { queries: { retry: 1, staleTime: 2_000, refetchOnWindowFocus: true, networkMode: "always" } },
  queryCache: new QueryCache({
    // The first request that gets no answer shows that the server is away; when it is back, all views load again.
    onError(err, query) {
      if (isInfo(query.queryKey)) away = true;
      else if (!("status" in err)) void queries.invalidateQueries({ predicate: (q) => isInfo(q.queryKey) });
    },
    onSuccess(_, query) {
      if (!away || !isInfo(query.queryKey)) return;
      away = false;
      void queries.invalidateQueries({ predicate: (q) => !isInfo(q.queryKey) });
    },
  }),
});

/** The server that serves the page is one level above it. */
const ownServer = (): string => new URL("..", window.location.href).href;

/** sending is fetch, with which a run is cancelled even if the page is left at once. */
const sending: typeof fetch = (input, init) => {
  const url = input instanceof Request ? input.url : String(input);
  return fetch(input, /\/cancel(\?|$)/.test(url) ? { ...init, keepalive: true } : init);
};

const keyOf = (url: string) => "treadle-studio-key " + url;

export function ConnectionProvider({ children }: { children: ReactNode }) {
  const { baseUrl } = useLocation();
  const url = (baseUrl ?? ownServer()).replace(/\/$/, "");
  // A key is kept for the session only, and for the one server it was entered for.
  const [, entered] = useState(0);
  const apiKey = sessionStorage.getItem(keyOf(url));
  const connection = useMemo<Connection>(
    () => ({
      client: new Client({ apiUrl: url, apiKey, callerOptions: { maxRetries: 1, fetch: sending } }),
      url,
      apiKey,
      setApiKey(key) {
        if (key) sessionStorage.setItem(keyOf(url), key);
        else sessionStorage.removeItem(keyOf(url));
        queries.clear();
        entered((n) => n + 1);
      },
      async request(method, path, body) {
        const answer = await fetch(url + path, { method, headers: { "content-type": "application/json", ...(apiKey ? { "x-api-key": apiKey } : {}) }, body: JSON.stringify(body) });
        const text = await answer.text();
        if (!answer.ok) throw Object.assign(new Error(`HTTP ${answer.status}: ${text}`), { status: answer.status });
        return text ? (JSON.parse(text) as unknown) : undefined;
      },
    }),
    [url, apiKey],
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

export type ServerState = "connecting" | "online" | "offline" | "refused";

/** useServer watches the server. */
export function useServer() {
  const { url, apiKey } = useConnection();
  const q = useQuery({
    queryKey: [url, "info", apiKey],
    queryFn: async () => {
      const answer = await fetch(url + "/info", { headers: apiKey ? { "x-api-key": apiKey } : {} });
      if (!answer.ok) throw new Error(String(answer.status));
      return (await answer.json()) as { version?: string; context?: string; langgraph_js_version?: string; langgraph_py_version?: string; flags?: Record<string, unknown> };
    },
    refetchInterval: (q) => (q.state.error ? 2_000 : 15_000),
    retry: false,
  });
  const refused = q.error?.message === "401" || q.error?.message === "403";
  const state: ServerState = q.isPending ? "connecting" : refused ? "refused" : q.isError ? "offline" : "online";
  return { state, info: q.data };
}

/** useIsTreadle reports whether the server has what only Treadle's has. Others may refuse it. */
export const useIsTreadle = (): boolean => useServer().info?.context === "treadle";

/** useAssistants lists the assistants of the server. */
export function useAssistants() {
  const { client, url, apiKey } = useConnection();
  return useQuery({
    queryKey: [url, "assistants", apiKey],
    queryFn: async () => (await client.assistants.search({ limit: 1000 })).sort((a, b) => a.graph_id.localeCompare(b.graph_id) || a.name.localeCompare(b.name)),
  });
}

/** useAssistant is the assistant that is chosen, or else the first one. */
export function useAssistant() {
  const { assistant } = useLocation();
  const { data } = useAssistants();
  return data?.find((a) => a.assistant_id === assistant) ?? data?.find((a) => a.graph_id === assistant && a.metadata?.created_by === "system") ?? data?.[0];
}

/** useSchemas are the JSON schemas of an assistant's graph. */
export function useSchemas(assistant: string | undefined) {
  const { client, url } = useConnection();
  return useQuery({
    queryKey: [url, "schemas", assistant],
    queryFn: () => client.assistants.getSchemas(assistant!),
    enabled: !!assistant,
    staleTime: 60_000,
  });
}
