// Pictures of 16 by 16, drawn by lines.
const paths = {
  play: "M5 3.5v9l7-4.5z",
  stop: "M4.5 4.5h7v7h-7z",
  undo: "M6 4 3 7l3 3M3 7h6a4 4 0 0 1 0 8H7",
  plus: "M8 3.5v9M3.5 8h9",
  minus: "M3.5 8h9",
  close: "m4 4 8 8M12 4l-8 8",
  check: "m3.5 8.5 3 3 6-7",
  down: "m4 6 4 4 4-4",
  up: "M8 12.5v-9M4 7.5l4-4 4 4",
  right: "m6 4 4 4-4 4",
  left: "m10 4-4 4 4 4",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  copy: "M5.5 5.5h7v7h-7zM3.5 10.5v-7h7",
  edit: "m10.5 3.5 2 2-7 7H3.5v-2z",
  trash: "M3.5 5h9M6.5 5V3.5h3V5M5 5l.5 8h5l.5-8",
  fork: "M5 3v10M5 8c4 0 6-1 6-4M11 4V3",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9ZM10.5 10.5l3 3",
  graph: "M4 4h.01M12 4h.01M8 12h.01M5 4h6M4.7 5l2.6 6M11.3 5l-2.6 6",
  chat: "M3 4.5h10v6.5H7l-3 2.5V11H3z",
  trace: "M3 4h6M5 8h7M8 12h5",
  list: "M3 4.5h10M3 8h10M3 11.5h10",
  store: "M3.5 4.5c0-2 9-2 9 0v7c0 2-9 2-9 0zM3.5 4.5c0 2 9 2 9 0M3.5 8c0 2 9 2 9 0",
  person: "M8 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5ZM3.5 13.5c.5-5 8.500-5 9 0",
  sun: "M8 10.500a2.5 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5ZM8 1.800v1.400M8 12.800v1.400M1.800 8h1.400M12.800 8h1.400M3.600 3.600l1 1M11.400 11.400l1 1M3.600 12.400l1-1M11.400 4.600l1-1",
  moon: "M13 9.500A5.500 5.500 0 0 1 6.500 3 5.500 5.500 0 1 0 13 9.500Z",
  settings: "M3 5h6M12 5h1M3 11h1M7 11h6M9 3.500v3M5.500 9.500v3",
  refresh: "M13 8a5 5 0 1 1-1.500-3.600M13 2.500V5h-2.500",
  compare: "M3.500 3.500h3.500v9H3.500zM9 3.500h3.500v9H9z",
  image: "M3 3.500h10v9H3zM3 11l3-3 2.500 2.500L11 8l2 2M6 6h.01",
  link: "M7 9.500 9.500 7M6.500 6 8.500 4a2.500 2.500 0 0 1 3.500 3.500l-2 2M9.500 10l-2 2A2.500 2.500 0 0 1 4 8.500l2-2",
  clock: "M8 13.500a5.500 5.500 0 1 0 0-11 5.500 5.500 0 0 0 0 11ZM8 5v3l2 1.500",
  tool: "M10 2.800a3.300 3.300 0 0 0-3 4.500L2.800 11.500l1.700 1.700L8.700 9a3.300 3.300 0 0 0 4.400-4.100L11 7 9 5l2-2Z",
  fit: "M3 6V3h3M10 3h3v3M13 10v3h-3M6 13H3v-3",
  map: "M3 4.500 6.500 3l3 1.500L13 3v8.500L9.500 13l-3-1.500L3 13zM6.500 3v8.500M9.500 4.500V13",
  pause: "M5.500 3.500v9M10.500 3.500v9",
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 16 16" fill="none" stroke="currentColor" strokeWidth="1.5" strokeLinecap="round" strokeLinejoin="round" aria-hidden>
      <path d={paths[name]} />
    </svg>
  );
}
