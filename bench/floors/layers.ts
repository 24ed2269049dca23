/** The layers of a call from the socket inwards, shared by the server and its client. */

interface Cut {
  readonly name: string;
  readonly frames?: false;
  readonly rules: number;
  /** Stages of layer-server.ts, the outermost first. */
  readonly stages: readonly string[];
  /** What answers after them: a prepared result, a host that reads an empty file, or the tool. */
  readonly end: 'constant' | 'host' | 'tool';
  /** Whether results are served from the cache. */
  readonly cached?: boolean;
}

const ORDER = ['audit', 'limits', 'validate', 'permission', 'cache', 'lock', 'queue', 'redaction'] as const;
const upTo = (last: (typeof ORDER)[number]) => ORDER.slice(0, ORDER.indexOf(last) + 1);
const cut = (name: string, last: (typeof ORDER)[number], rest: Partial<Cut> = {}): Cut => ({
  name,
  rules: 10,
  stages: upTo(last),
  end: 'constant',
  ...rest,
});

/** Each entry includes all layers before it; those without `+` are not part of the chain. */
export const LAYERS: readonly (Cut | { readonly name: string; readonly frames: true })[] = [
  { name: '+ frames', frames: true },
  { name: '+ session', rules: 10, stages: [], end: 'constant' },
  cut('+ audit', 'audit'),
  cut('+ rate limit, cost cap', 'limits'),
  cut('+ validate', 'validate'),
  cut('+ permission, 10 rules', 'permission'),
  cut('+ cache, a miss', 'cache'),
  cut('+ lock, retries', 'lock'),
  cut('+ queue', 'queue'),
  cut('+ redaction of 4 KiB', 'redaction'),
  cut('+ tier host, an empty file', 'redaction', { end: 'host' }),
  cut('+ tool, reading 4 KiB', 'redaction', { end: 'tool' }),
  cut('permission, 100 rules', 'permission', { rules: 100 }),
  cut('permission, 500 rules', 'permission', { rules: 500 }),
  cut('the whole, a cache hit', 'redaction', { end: 'tool', cached: true }),
];
