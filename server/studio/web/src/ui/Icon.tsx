// Line icons of 16 by 16 pixels.
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
  person: "M8 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5ZM3.5 13.5c.5-5 8.5-5 9 0",
  sun:
    "M8 10.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5ZM8 1.8v1.4M8 12.8v1.4M1.8 8h1.4M12.8 8h1.4" +
    "M3.6 3.6l1 1M11.4 11.4l1 1M3.6 12.4l1-1M11.4 4.6l1-1",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5Z",
  settings: "M3 5h6M12 5h1M3 11h1M7 11h6M9 3.5v3M5.5 9.5v3",
  refresh: "M13 8a5 5 0 1 1-1.5-3.6M13 2.5V5h-2.5",
  compare: "M3.5 3.5h3.5v9H3.5zM9 3.5h3.5v9H9z",
  image: "M3 3.5h10v9H3zM3 11l3-3 2.5 2.5L11 8l2 2M6 6h.01",
  link: "M7 9.5 9.5 7M6.5 6 8.5 4a2.5 2.5 0 0 1 3.5 3.5l-2 2M9.5 10l-2 2A2.5 2.5 0 0 1 4 8.5l2-2",
  clock: "M8 13.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11ZM8 5v3l2 1.5",
  tool: "M10 2.8a3.3 3.3 0 0 0-3 4.5L2.8 11.5l1.7 1.7L8.7 9a3.3 3.3 0 0 0 4.4-4.1L11 7 9 5l2-2Z",
  fit: "M3 6V3h3M10 3h3v3M13 10v3h-3M6 13H3v-3",
  map: "M3 4.5 6.5 3l3 1.5L13 3v8.5L9.5 13l-3-1.5L3 13zM6.5 3v8.5M9.5 4.5V13",
  pause: "M5.5 3.5v9M10.5 3.5v9",
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.5"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden
    >
      <path d={paths[name]} />
    </svg>
  );
}
