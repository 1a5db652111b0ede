// The session of the thread in the URL.
import { createContext, useContext, useEffect, useState, useSyncExternalStore, type ReactNode } from "react";
import { useConnection } from "../app/connection";
import { go, useLocation } from "../app/location";
import { serverIsBack } from "./follow";
import { Session } from "./thread";
import type { SessionState } from "./types";

const open = (client: ConstructorParameters<typeof Session>[0], thread: string | null) =>
  new Session(client, thread, (id) => go({ thread: id }));

const Context = createContext<Session | null>(null);

export function SessionProvider({ children }: { children: ReactNode }) {
  const { client } = useConnection();
  const { thread } = useLocation();
  const [session, setSession] = useState(() => open(client, thread));
  const [of, setOf] = useState(client);
  // A session that has just created its thread is kept.
  if (session.threadId !== thread || of !== client) {
    setSession(open(client, thread));
    setOf(client);
  }
  useEffect(() => {
    const back = () => session.recover();
    void session.load();
    window.addEventListener(serverIsBack, back);
    return () => {
      window.removeEventListener(serverIsBack, back);
      session.close();
    };
  }, [session]);
  return <Context value={session}>{children}</Context>;
}

/** useSession returns the session of the thread in the URL. */
export function useSession(): Session {
  const s = useContext(Context);
  if (!s) throw new Error("useSession outside of SessionProvider");
  return s;
}

/** useSessionState returns the session's state. */
export function useSessionState(): SessionState {
  const s = useSession();
  return useSyncExternalStore(s.subscribe, s.getState);
}

/** useSessionPart returns a part of the state. The view is rerendered when that part changes. */
export function useSessionPart<T>(pick: (s: SessionState) => T): T {
  const s = useSession();
  return useSyncExternalStore(s.subscribe, () => pick(s.getState()));
}
