import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useState, type ReactNode } from "react";
import type { Row } from "../../data/branches";
import { useSession, useSessionPart } from "../../data/session";
import type { Step } from "../../data/types";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { useTell } from "../../ui/Toast";
import { useFollow } from "../../ui/useFollow";
import { Branch, Card, type Action } from "./Card";

interface Props {
  rows: Row[];
  selected: string | null;
  onAction(action: Action, step: Step): void;
  onBranch(id: string): void;
  onUnfold(id: string): void;
  running: boolean;
  /** The content after the last card. */
  children: ReactNode;
}

/** List scrolls the cards. Only visible cards are rendered, and the list follows its end until the user scrolls up. */
export function List({ rows, selected, onAction, onBranch, onUnfold, running, children }: Props) {
  const { scroller, content, away, toEnd, leaveEnd } = useFollow(selected === null);
  const list = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: (i) => (rows[i]!.kind === "branch" ? 34 : 110),
    getItemKey: (i) => rows[i]!.key,
    overscan: 6,
    anchorTo: "end",
  });
  const loading = useOlder(scroller, list.range?.startIndex === 0);

  // A checkpoint selected elsewhere is scrolled into view.
  const at = rows.findIndex((r) => r.kind === "step" && r.key === selected);
  const there = at >= 0;
  useLayoutEffect(() => {
    if (!there) return;
    const card = scroller.current!.querySelector(`[data-index="${at}"]`)?.getBoundingClientRect();
    const box = scroller.current!.getBoundingClientRect();
    if (card && card.top < box.bottom - 40 && card.bottom > box.top + 40) return;
    leaveEnd();
    list.scrollToIndex(at, { align: "center" });
    // eslint-disable-next-line react-hooks/exhaustive-deps -- Rows loaded above keep the visible ones in place.
  }, [selected, there]);
  useEffect(() => {
    if (running) toEnd();
  }, [running, toEnd]);

  return (
    <div className="timeline">
      {/* The list can be scrolled by keys, so it is focusable. */}
      <div className="timeline-scroll" ref={scroller} tabIndex={0} role="region" aria-label="Steps">
        <div ref={content} className="timeline-content">
          {loading ? <p className="timeline-quiet timeline-older">Loading older checkpoints…</p> : null}
          <div className="timeline-list" role="list" style={{ height: list.getTotalSize() }}>
            {list.getVirtualItems().map((item) => {
              const row = rows[item.index]!;
              return (
                <div
                  key={item.key}
                  role="listitem"
                  ref={list.measureElement}
                  data-index={item.index}
                  className="timeline-item"
                  style={{ transform: `translateY(${item.start}px)` }}
                >
                  {row.kind === "step" ? (
                    <Card row={row} selected={row.key === selected} onAction={onAction} onBranch={onBranch} />
                  ) : (
                    <Branch row={row} onBranch={onBranch} onUnfold={onUnfold} />
                  )}
                </div>
              );
            })}
          </div>
          <div className="timeline-end">{children}</div>
        </div>
      </div>
      {away ? (
        <Button size="small" className="timeline-to-end" onClick={toEnd}>
          <Icon name="down" size={12} /> To the end
        </Button>
      ) : null}
    </div>
  );
}

/** useOlder loads older checkpoints when the first one is visible. */
function useOlder(scroller: React.RefObject<HTMLDivElement | null>, first: boolean): boolean {
  const session = useSession();
  const tell = useTell();
  const more = useSessionPart((s) => s.hasMore);
  const oldest = useSessionPart((s) => s.steps.at(-1));
  const [loading, setLoading] = useState(false);
  useEffect(() => {
    const el = scroller.current!;
    // A list that has not yet been scrolled to its end shows its first item for a moment.
    if (!first || !more || (el.scrollTop > 400 && el.scrollHeight > el.clientHeight)) return;
    setLoading(true);
    void tell.attempt(() => session.loadMore()).then(() => setLoading(false));
  }, [first, more, oldest, session, tell, scroller]);
  return loading;
}
