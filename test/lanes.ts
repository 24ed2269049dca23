/**
 * Which folder's tests run how. A test file belongs to the one lane that names its folder; `test/tidy.test.ts` holds that,
 * and `test/nightly.ts` names the files that only `script/test --all` runs.
 */
export interface Lane {
  /** Folders below `test/`, or single files of it; a file belongs to the lane that names it, not to that of its folder. */
  readonly places: readonly string[];
  readonly what: string;
}

export const lanes = {
  pure: {
    places: ['unit', 'pins', 'fuzz'],
    what: 'logic in threads that share one module graph; a process that a test starts fails it (support/no-processes.ts)',
  },
  programs: { places: ['programs', 'tidy.test.ts'], what: 'parts that start real programs, without a daemon' },
  daemon: { places: ['daemon', 'contract', 'panel', 'workloads'], what: 'a real daemon through its client' },
  'own-daemon': {
    places: ['attack', 'fault', 'fleet'],
    what: 'daemons that are attacked, killed, filled up or joined',
  },
  alone: {
    places: [
      ...['fault/cgroup.test.ts', 'fault/limits.test.ts', 'fault/tool-limits.test.ts'],
      ...['attack/host-memory.test.ts', 'attack/limits.test.ts'],
      ...['attack/symbols.test.ts', 'attack/web-servers.test.ts'],
    ],
    what: 'as own-daemon, one file at a time: their bounds are of time and processor time',
  },
} as const satisfies Record<string, Lane>;

const isFile = (place: string): boolean => place.endsWith('.ts');

/** The globs of a lane's test files, and those of files in its folders that other lanes name. */
export const filesOf = ({ places }: Lane): string[] =>
  places.map((it) => (isFile(it) ? `test/${it}` : `test/${it}/**/*.test.ts`));
export const namedElsewhere = ({ places }: Lane): string[] =>
  Object.values(lanes)
    .flatMap((lane) => lane.places.filter(isFile))
    .filter((it) => !places.includes(it))
    .map((it) => `test/${it}`);
