import { lazy, Suspense, useEffect, useState, type ReactElement, type ReactNode } from "react";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import { Icon, type IconName } from "../ui/Icon";
import { Empty, Failed, Loading } from "../ui/States";
import { Boundary } from "../ui/Boundary";
import { httpStatusOf, messageOf } from "../data/errors";
import { useSessionPart } from "../data/session";
import { hasWork } from "../views/agent/work";
import { useQuestions } from "../views/inbox/inbox";
import { Threads } from "../views/threads/Threads";
import { Workbench } from "../views/Workbench";
import { AssistantMenu } from "./AssistantMenu";
import { isTyping } from "./commands";
import { useAssistants, useConnection, useServer } from "./connection";
import { go, useLocation, type View } from "./location";
import { setTheme, useTheme, type Theme } from "./theme";
import "./app.css";

const Chat = lazy(() => import("../views/chat/Chat"));
const Trace = lazy(() => import("../views/trace/Trace"));
const Agent = lazy(() => import("../views/agent/Agent"));
const Inbox = lazy(() => import("../views/inbox/Inbox"));
const Runs = lazy(() => import("../views/runs/Runs"));
const Store = lazy(() => import("../views/store/Store"));
const SideBySide = lazy(() => import("../views/compare/SideBySide"));
const Memory = lazy(() => import("../views/memory/Memory"));
const Palette = lazy(() => import("./Palette"));
const Shortcuts = lazy(() => import("./Palette").then((m) => ({ default: m.Shortcuts })));

/** A hidden view is reached from others. That of agents has a tab while the thread has something to show there. */
const tabs: { view: View; label: string; icon: IconName; threads: boolean; hidden?: boolean }[] = [
  { view: "graph", label: "Graph", icon: "graph", threads: true },
  { view: "chat", label: "Chat", icon: "chat", threads: true },
  { view: "trace", label: "Trace", icon: "trace", threads: true },
  { view: "agent", label: "Agent", icon: "check", threads: true, hidden: true },
  { view: "inbox", label: "Inbox", icon: "pause", threads: false },
  { view: "runs", label: "Runs", icon: "list", threads: false },
  { view: "store", label: "Store", icon: "store", threads: false },
  { view: "memory", label: "Memory", icon: "person", threads: false },
  { view: "compare", label: "Side by side", icon: "compare", threads: false, hidden: true },
];

export function App() {
  const { view, thread } = useLocation();
  const [threads, setThreads] = useState(false);
  const works = useSessionPart((s) => hasWork(s.values));
  const shown = tabs.find((t) => t.view === view) ?? tabs[0]!;
  // On a narrow screen the list of threads lies above the view, until one is chosen.
  useEffect(() => setThreads(false), [view, thread]);
  return (
    <div className="app">
      <header className="app-head">
        <a
          className="app-name"
          href="?"
          aria-label="Treadle Studio"
          onClick={(e) => (e.preventDefault(), go({ view: "graph", thread: null }))}
        >
          <img src="./icon.svg" alt="" width="22" height="22" />
          <span>Treadle Studio</span>
        </a>
        <AssistantMenu />
        <nav className="app-nav" aria-label="Views">
          {tabs
            .filter((t) => !t.hidden || (t.view === "agent" && (works || t.view === view)))
            .map((t) => (
              <button
                key={t.view}
                type="button"
                className="tab"
                aria-current={t.view === view ? "page" : undefined}
                onClick={() => go({ view: t.view })}
              >
                <Icon name={t.icon} />
                <span>{t.label}</span>
                {t.view === "inbox" ? <InboxCount /> : null}
              </button>
            ))}
        </nav>
        <span className="grow" />
        <Commands />
        <ServerMenu />
        <ThemeButton />
      </header>
      <Away />
      <main className="app-main" data-threads={shown.threads || undefined} data-open={threads || undefined}>
        {shown.threads ? (
          <>
            <aside className="app-threads" aria-label="Threads">
              <Threads onChoose={() => setThreads(false)} />
            </aside>
            <Button
              className="app-threads-button"
              size="small"
              onClick={() => setThreads(!threads)}
              aria-expanded={threads}
            >
              <Icon name="list" /> Threads
            </Button>
          </>
        ) : null}
        <div className="app-view">
          <h1 className="hidden">{shown.label}</h1>
          <Guard>
            <Boundary key={view}>
              <Suspense fallback={<Loading what="the view" />}>{viewOf(view)}</Suspense>
            </Boundary>
          </Guard>
        </div>
      </main>
    </div>
  );
}

/** Commands opens the palette and the list of shortcuts, by keys too. */
function Commands() {
  const [open, setOpen] = useState<"palette" | "shortcuts" | null>(null);
  useEffect(() => {
    const onKeyDown = (e: KeyboardEvent) => {
      if (e.defaultPrevented || e.altKey) return;
      const command = e.ctrlKey || e.metaKey;
      if (e.key.toLowerCase() === "k" && command && !e.shiftKey) setOpen("palette");
      else if (e.key === "?" && !command && !isTyping(e.target)) setOpen("shortcuts");
      else return;
      e.preventDefault();
    };
    window.addEventListener("keydown", onKeyDown);
    return () => window.removeEventListener("keydown", onKeyDown);
  }, []);
  const close = () => setOpen(null);
  return (
    <>
      <Button kind="quiet" label="Commands" aria-keyshortcuts="Control+K" onClick={() => setOpen("palette")}>
        <Icon name="search" />
      </Button>
      <Suspense fallback={null}>
        {open === "palette" ? <Palette onClose={close} onShortcuts={() => setOpen("shortcuts")} /> : null}
        {open === "shortcuts" ? <Shortcuts onClose={close} /> : null}
      </Suspense>
    </>
  );
}

/** InboxCount shows the number of questions that wait for an answer. */
function InboxCount() {
  const { count, more, error } = useQuestions();
  if (error && count === 0)
    return (
      <span className="badge bad" title={`Failed to load questions: ${error}`}>
        !
      </span>
    );
  if (count === 0) return null;
  return (
    <span
      className={error ? "badge bad" : "badge warn"}
      title={
        (count === 1 && !more ? "1 question waits" : `${count}${more ? "+" : ""} questions wait`) +
        (error ? `, as last loaded. Failed to load questions: ${error}` : "")
      }
    >
      {count}
      {more ? "+" : ""}
      {error ? "!" : ""}
    </span>
  );
}

/** Away shows that the server is not responding, above the loaded content. */
function Away() {
  const { url } = useConnection();
  const { state } = useServer();
  const { data } = useAssistants();
  if (state !== "offline" || !data) return null;
  return (
    <p className="app-away" role="status">
      <span className="dot bad" aria-hidden /> The server at {url.replace(/^https?:\/\//, "")} does not answer. You see
      what was loaded before; the studio tries again every two seconds.
    </p>
  );
}

function viewOf(view: View): ReactElement {
  switch (view) {
    case "graph":
      return <Workbench />;
    case "chat":
      return <Chat />;
    case "trace":
      return <Trace />;
    case "agent":
      return <Agent />;
    case "inbox":
      return <Inbox />;
    case "runs":
      return <Runs />;
    case "store":
      return <Store />;
    case "memory":
      return <Memory />;
    case "compare":
      return <SideBySide />;
  }
}

/** Guard shows its children when the server responds. */
function Guard({ children }: { children: ReactNode }) {
  const { url, setApiKey } = useConnection();
  const { state, failure } = useServer();
  const assistants = useAssistants();
  const [key, setKey] = useState("");
  const responded = httpStatusOf(failure) !== undefined;
  if (state === "refused")
    return (
      <form className="state" onSubmit={(e) => (e.preventDefault(), setApiKey(key || null))}>
        <h2>This server requires a key</h2>
        <p>It is sent as the header x-api-key to {url} and kept until you close this tab.</p>
        <p className="muted small">The server responded: {messageOf(failure)}</p>
        <div className="row">
          <input
            className="input"
            type="password"
            aria-label="API key"
            value={key}
            onChange={(e) => setKey(e.target.value)}
            autoFocus
          />
          <Button kind="primary" type="submit">
            Connect
          </Button>
        </div>
      </form>
    );
  // Loaded content stays visible while the server is not responding.
  if (!assistants.data && failure)
    return (
      <Failed
        what={responded ? "Failed to load the assistants" : "The server is not responding"}
        error={responded ? messageOf(failure) : `Cannot reach ${url}. The studio retries every two seconds.`}
        retry={() => void assistants.refetch()}
      />
    );
  if (!assistants.data) return <Loading what="assistants" />;
  if (assistants.data.length === 0)
    return (
      <Empty title="No graphs">
        The server at {url} serves no graphs. Pass at least one to the server and restart it.
      </Empty>
    );
  return children;
}

const serverTexts = {
  connecting: "Connecting",
  online: "Connected",
  offline: "Not responding",
  failing: "Server error",
  refused: "Key required",
};
const serverDots = { connecting: "dot", online: "dot ok", offline: "dot bad", failing: "dot bad", refused: "dot warn" };

/** connect reloads the page, because its policy names the only server that it may call. */
function connect(baseUrl: string | null) {
  window.location.search = baseUrl ? "?" + new URLSearchParams({ baseUrl }).toString() : "";
}

function ServerMenu() {
  const { url } = useConnection();
  const { state, info, refresh } = useServer();
  const [open, setOpen] = useState(false);
  const [address, setAddress] = useState(url);
  return (
    <>
      <button
        type="button"
        className="button quiet small app-server"
        aria-label={`${serverTexts[state]} ${url.replace(/^https?:\/\//, "")}`}
        title={url}
        onClick={() => (setAddress(url), setOpen(true), void refresh())}
      >
        <span className={serverDots[state]} aria-hidden />
        <span className="app-server-text">
          {serverTexts[state]}
          <span className="app-server-url"> {url.replace(/^https?:\/\//, "")}</span>
        </span>
      </button>
      <Dialog
        title="Server"
        open={open}
        onClose={() => setOpen(false)}
        foot={
          <>
            <Button onClick={() => connect(null)}>This page's server</Button>
            <Button kind="primary" onClick={() => connect(address)}>
              Connect
            </Button>
          </>
        }
      >
        <div className="column">
          <label className="field">
            <span className="label">Address</span>
            <input className="input" value={address} onChange={(e) => setAddress(e.target.value)} spellCheck={false} />
            <span className="hint">Any LangGraph server. It must allow this page's origin (CORS).</span>
          </label>
          <p className="muted small">
            {serverTexts[state]}
            {info?.version ? `, version ${info.version}` : ""}
          </p>
        </div>
      </Dialog>
    </>
  );
}

const themes: Record<Theme, { next: Theme; icon: IconName; text: string }> = {
  system: { next: "light", icon: "settings", text: "System colors" },
  light: { next: "dark", icon: "sun", text: "Light colors" },
  dark: { next: "system", icon: "moon", text: "Dark colors" },
};

function ThemeButton() {
  const theme = themes[useTheme()];
  return (
    <Button kind="quiet" label={theme.text} onClick={() => setTheme(theme.next)}>
      <Icon name={theme.icon} />
    </Button>
  );
}
