/** Signs of 16 by 16: a state or a kind is a shape and a word, and colour only repeats it. */

const PATHS = {
  inbox: 'M2 9h3l1 2h4l1-2h3M2 9l2-6h8l2 6v4H2z',
  calls: 'M2 4h12M2 8h9M2 12h6',
  changes: 'M5 2v8m-3-3 3 3 3-3M11 14V6m-3 3 3-3 3 3',
  agents: 'M8 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5M3 14c.5-3 2.5-4.5 5-4.500s4.5 1.5 5 4.5',
  batches:
    'M2 8a1.5 1.5 0 1 0 3 0 1.5 1.5 0 0 0-3 0m9-4.500a1.5 1.5 0 1 0 3 0 1.5 1.5 0 0 0-3 0m0 9a1.5 1.5 0 1 0 3 0 1.5 1.5 0 0 0-3 0M5 7.300l6-3M5 8.700l6 3',
  plus: 'M3 3h10v10H3zM8 5.500v5M5.5 8h5',
  page: 'M4 2h6l3 3v9H4zM6 8h5M6 11h5',
  rules: 'M3 3h10M3 8h10M3 13h6',
  answers: 'M2 3h12v8H7l-3 3v-3H2zM5 7l2 1.500L11 5',
  costs: 'M8 2v12M11 4.500C10 3.5 5 3 5 5.500S11 8 11 10.5 6 12.5 5 11.5',
  machine: 'M2 12l4-5 3 3 5-7',
  settings: 'M2 5h5m4 0h3M2 11h2m4 0h6M7 5a2 2 0 1 0 4 0 2 2 0 0 0-4 0M4 11a2 2 0 1 0 4 0 2 2 0 0 0-4 0',
  stop: 'M5.5 2h5L14 5.500v5L10.5 14h-5L2 10.500v-5zM6 6h4v4H6z',
  more: 'M3 8h.1M8 8h.1M13 8h.1',
  shield: 'M8 1.5 14 4v4.200c0 3-2.4 5.2-6 6.3-3.6-1.1-6-3.3-6-6.300V4zM5.2 8.1 7.3 10l3.6-4',
  host: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2M2 8h12M8 2c2 2 2.5 4 2.5 6S10 12 8 14M8 2C6 4 5.5 6 5.5 8S6 12 8 14',
  key: 'M5 8.500a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5M7 9l6-6M10.5 5.500l2 2',
  folder: 'M2 4h4l1.5 2H14v7H2z',
  lock: 'M4 7h8v7H4zM5.5 7V5a2.5 2.5 0 0 1 5 0v2',
  box: 'M8 2l6 3v6l-6 3-6-3V5zM2 5l6 3 6-3M8 8v6',
  command: 'M3 4l4 4-4 4M8.5 12H13',
  file: 'M4 2h6l3 3v9H4z',
  check: 'M3 8.500l3.2 3.200L13 4.8',
  cross: 'M4 4l8 8M12 4l-8 8',
  barred: 'M8 2.500a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M4.2 4.200l7.6 7.6',
  clock: 'M8 2.500a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M8 5v3.200l2 1.3',
  play: 'M5 3.500v9l7-4.500z',
  dots: 'M4 8h.1M8 8h.1M12 8h.1M2 4h12v8H2z',
  warn: 'M8 2l6.5 11.500h-13zM8 6.500v3M8 11.500v.1',
  note: 'M8 2.500a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M8 7.500V11M8 5v.1',
  undo: 'M3 6h6.500a3.5 3.5 0 0 1 0 7H6M3 6l3-3M3 6l3 3',
  rule: 'M3 3h10M3 8h10M3 13h6',
} as const;

export type IconName = keyof typeof PATHS;

export const Icon = ({ name }: { name: IconName }) => (
  <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
    <path d={PATHS[name]} />
  </svg>
);
