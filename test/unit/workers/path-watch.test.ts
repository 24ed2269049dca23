/** The thread that hears of commands' calls on paths: without it these would wait for ever, so that its process ends with it. */
import { spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { defaultLimits } from '../../../src/limits.ts';
import { systemPowers } from '../../../src/powers.ts';
import { NO_MASKS } from '../../../src/sandbox/masks.ts';
import type { PathRun } from '../../../src/sandbox/path-evidence.ts';
import { greetingOf, tokenOf } from '../../../src/sandbox/path-greeting.ts';
import { openLine } from '../../../src/sandbox/path-notices.ts';
import { pathProgram } from '../../../src/sandbox/path-program.ts';
import { PLACES, placeOf } from '../../../workers/path-places.ts';
import { PathWatch } from '../../../workers/path-watch.ts';

/** Nothing is kept until later. */
const soon = (_: number, work: () => void) => {
  work();
  return { cancel() {} };
};

const at = (path: string) => JSON.stringify(fileURLToPath(new URL(`../../../${path}`, import.meta.url)));

/** Says whether calls are told of, and lets the thread begin to hear of a command behind such walls. */
const program = (walls: object) => `
  import { PathWatch } from ${at('workers/path-watch.ts')};
  import { defaultLimits } from ${at('src/limits.ts')};
  import { systemPowers } from ${at('src/powers.ts')};
  const watch = new PathWatch({ limits: defaultLimits, powers: systemPowers() });
  await watch.ready();
  process.stdout.write(String(watch.isOn));
  watch.open(${JSON.stringify(walls)}).begin();
  setTimeout(() => process.exit(0), 2000);
`;

function run(readOnly: unknown): { isOn: string; status: number | null } {
  const walls = { workspace: '/nowhere', system: [], masks: { hidden: [], readOnly, pinned: [] } };
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-watch-'));
  try {
    const file = join(folder, 'program.mjs');
    writeFileSync(file, program(walls));
    const { stdout, status } = spawnSync(process.execPath, [file], { encoding: 'utf8', timeout: 20_000 });
    return { isOn: stdout, status };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test('no two commands that run share a place, however many come and go meanwhile', async () => {
  const watch = new PathWatch({ limits: defaultLimits, powers: { ...systemPowers(), after: soon } });
  const walls = { workspace: '/nowhere', system: [], masks: NO_MASKS };
  const place = ({ greeting: [name, value] }: PathRun) => placeOf(tokenOf(Buffer.from(`${name}=${value}`)));
  using long = watch.open(walls);
  for (let i = 0; i < 2 * PLACES; i++) {
    using run = watch.open(walls);
    expect(place(run)).not.toBe(place(long));
  }
});

test('a command whose host is gone before it has its listener ends, and waits for nobody', () => {
  const [ours, theirs] = openLine() ?? [-1, -1];
  closeSync(ours);
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-first-'));
  try {
    writeFileSync(join(folder, 'first'), pathProgram({ line: 3, self: 4 }), { mode: 0o700 });
    const program = openSync(join(folder, 'first'), 'r');
    const [name, value] = greetingOf(1, true);
    const { status, signal } = spawnSync('/proc/self/fd/4', ['/bin/true'], {
      stdio: ['ignore', 'ignore', 'ignore', theirs, program],
      env: { [name]: value },
      timeout: 5000,
      killSignal: 'SIGKILL',
    });
    expect({ status, signal }).toEqual({ status: 127, signal: null });
    for (const fd of [theirs, program]) closeSync(fd);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('a process whose thread fails ends, and one whose thread does not goes on', () => {
  expect(run([])).toEqual({ isOn: 'true', status: 0 });
  expect(run(1)).toEqual({ isOn: 'true', status: 1 });
});
