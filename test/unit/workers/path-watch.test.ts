/** The thread that hears of commands' calls on paths: without it these would wait for ever, so that its process ends with it. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

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

test('a process whose thread fails ends, and one whose thread does not goes on', () => {
  expect(run([])).toEqual({ isOn: 'true', status: 0 });
  expect(run(1)).toEqual({ isOn: 'true', status: 1 });
});
