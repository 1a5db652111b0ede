// The difference of two texts, line by line.

export interface Line {
  kind: "same" | "added" | "removed";
  text: string;
}

/** The largest table of compared lines. Above it, the whole middle counts as replaced. */
const most = 4_000_000;

/** linesOf returns the lines of a text. A final line break starts no line. */
const linesOf = (text: string): string[] => (text === "" ? [] : text.replace(/\n$/, "").split("\n"));

/** diffLines returns the lines of both texts in order, with a longest common subsequence as the lines that stay. */
export function diffLines(before: string, after: string): Line[] {
  const [a, b] = [linesOf(before), linesOf(after)];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const as = (kind: Line["kind"]) => (text: string) => ({ kind, text });
  return [
    ...a.slice(0, head).map(as("same")),
    ...middle(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ...a.slice(a.length - tail).map(as("same")),
  ];
}

function middle(a: string[], b: string[]): Line[] {
  const out: Line[] = [];
  const width = b.length + 1;
  const small = (a.length + 1) * width <= most;
  // common[i * width + j] is the number of lines that a from i and b from j share.
  const common = new Uint32Array(small ? (a.length + 1) * width : 0);
  if (small)
    for (let i = a.length - 1; i >= 0; i--)
      for (let j = b.length - 1; j >= 0; j--)
        common[i * width + j] =
          a[i] === b[j]
            ? common[(i + 1) * width + j + 1]! + 1
            : Math.max(common[(i + 1) * width + j]!, common[i * width + j + 1]!);
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (small && i < a.length && j < b.length && a[i] === b[j]) {
      out.push({ kind: "same", text: a[i++]! });
      j++;
    } else if (i < a.length && (!small || j === b.length || common[(i + 1) * width + j]! >= common[i * width + j + 1]!))
      out.push({ kind: "removed", text: a[i++]! });
    else out.push({ kind: "added", text: b[j++]! });
  }
  return out;
}

export type Block = Line[] | { skipped: number };

/** around leaves out the lines that are far from any change. */
export function around(lines: Line[], context = 3): Block[] {
  const near = new Uint8Array(lines.length);
  lines.forEach((line, i) => {
    if (line.kind !== "same") near.fill(1, Math.max(0, i - context), i + context + 1);
  });
  const out: Block[] = [];
  lines.forEach((line, i) => {
    const last = out.at(-1);
    if (near[i]) {
      if (Array.isArray(last)) last.push(line);
      else out.push([line]);
    } else if (last && !Array.isArray(last)) last.skipped++;
    else out.push({ skipped: 1 });
  });
  return out;
}
