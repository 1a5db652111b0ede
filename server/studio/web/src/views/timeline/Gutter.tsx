// The lines left of the cards.
import type { Row } from "../../data/branches";

/** Branches nested more deeply than this share one lane. */
const lanes = 4;
const pitch = 14;

const x = (lane: number) => 9 + Math.min(lane, lanes - 1) * pitch;

export const gutterWidth = (row: Row): number => x(row.lane) + 15;

export function Gutter({ row }: { row: Row }) {
  const beside = row.up || row.leaves ? Math.min(row.lane, lanes - 1) : 0;
  return (
    <div className="gutter" aria-hidden>
      {Array.from({ length: beside }, (_, lane) => (
        <span key={lane} className="gutter-line" data-lane={lane} style={{ left: x(lane) }} />
      ))}
      {row.leaves ? (
        <span className="gutter-curve" style={{ left: x(row.lane - 1), width: x(row.lane) - x(row.lane - 1) }} />
      ) : null}
      {row.up ? <span className="gutter-line up" data-lane={row.lane} style={{ left: x(row.lane) }} /> : null}
      {row.down ? <span className="gutter-line down" data-lane={row.lane} style={{ left: x(row.lane) }} /> : null}
      <span className="gutter-dot" data-lane={row.lane} data-kind={row.kind} style={{ left: x(row.lane) }} />
    </div>
  );
}
