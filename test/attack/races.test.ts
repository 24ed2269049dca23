/** Names that change between check and use: by a command in the sandbox, and by a faster process outside. */

import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, mkdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { defaultLimits } from '../../src/base/limits.ts';
import { isInside } from '../../src/base/paths.ts';
import { systemPowers } from '../../src/base/powers.ts';
import { Anchor } from '../../workers/context/anchor.ts';
import { replaceAt } from '../../workers/context/targets.ts';
import { Changes, NO_RECORDER } from '../../workers/undo/changes.ts';
import { contentOf, eachIdentity } from '../support/arena.ts';
import { temporaryDir } from '../support/daemon.ts';

const TRIES = 100_000;
const OUTSIDE = 'as it was\n';
const racer = fileURLToPath(new URL('../fixtures/programs/race-links.pl', import.meta.url));

interface Race extends AsyncDisposable {
  readonly workspace: string;
  readonly outside: string;
  readonly racing: ChildProcess;
}

/** A workspace in which `race` alternates between a folder and a link to `outside`. */
async function startRace(): Promise<Race> {
  const parent = temporaryDir('race');
  const [workspace, outside] = [join(parent, 'ws'), join(parent, 'outside')];
  for (const it of [workspace, outside]) mkdirSync(it);
  writeFileSync(join(outside, 'victim'), OUTSIDE);
  const racing = spawn('perl', [racer, workspace, outside, '10000000'], { stdio: ['ignore', 'pipe', 'inherit'] });
  await new Promise((resolve) => racing.stdout?.once('data', resolve));
  return {
    workspace,
    outside,
    racing,
    async [Symbol.asyncDispose]() {
      const ended = new Promise((resolve) => racing.once('exit', resolve));
      if (racing.exitCode === null && racing.kill('SIGKILL')) await ended;
      rmSync(parent, { recursive: true, force: true });
    },
  };
}

/** How often each content was read; undefined counts refusals. */
function tally(tries: number, read: (turn: number) => string): Map<string | undefined, number> {
  const seen = new Map<string | undefined, number>();
  for (let turn = 0; turn < tries; turn++) {
    let content: string | undefined;
    try {
      content = read(turn);
    } catch {
      // Refused, or the name is missing at this moment.
    }
    seen.set(content, (seen.get(content) ?? 0) + 1);
  }
  return seen;
}

test(`${TRIES} tries to read and write under somebody who swaps links never leave the workspace`, async () => {
  await using race = await startRace();
  const anchor = new Anchor(race.workspace, defaultLimits);
  const seen = tally(TRIES, (turn) => {
    if (turn % 100 === 0) {
      const place = anchor.place('race/victim');
      try {
        const spot = { ...place, path: 'race/victim' };
        replaceAt(
          spot,
          Buffer.from('inside'),
          { overwrite: true, assertSame() {} },
          new Changes(NO_RECORDER, systemPowers()),
        );
      } finally {
        closeSync(place.fd);
      }
    }
    const { fd } = anchor.open('race/victim');
    try {
      return readFileSync(fd, 'utf8');
    } finally {
      closeSync(fd);
    }
  });
  expect(seen.get('inside')).toBeGreaterThan(0);
  expect(seen.get(undefined)).toBeGreaterThan(0);
  expect([...seen.keys()].filter((it) => it !== 'inside' && it !== undefined)).toEqual([]);
  expect(contentOf(race.outside)).toEqual({ victim: OUTSIDE });
  expect(race.racing.exitCode).toBeNull();
});

test('looking where a path leads and opening it then does leave the workspace under the same race', async () => {
  await using race = await startRace();
  const path = join(race.workspace, 'race/victim');
  const seen = tally(20_000, () => {
    if (!isInside(race.workspace, realpathSync(path))) throw new Error('outside');
    return readFileSync(path, 'utf8');
  });
  expect(seen.get(OUTSIDE)).toBeGreaterThan(0);
});

eachIdentity({}, (arena) => {
  test('race-links.pl within the sandbox gets nothing of outside read or written by tools that run beside it', async () => {
    await arena.command('mkdir field');
    const before = contentOf(arena.outside);
    const racing = arena.run({ program: 'race-links.pl', args: ['field', arena.outside, 60_000] });
    let over = false;
    void racing.then(() => {
      over = true;
    });
    const seen = new Set<string>();
    const calling = async (tool: 'file_read' | 'file_write', input: object) => {
      while (!over) {
        const result = await arena.client.call(tool, { path: 'field/race/victim', ...input } as never);
        seen.add(result.success ? ((result.data as { content?: string }).content ?? 'written') : result.error.code);
      }
    };
    await Promise.all([
      racing,
      calling('file_read', {}),
      calling('file_read', {}),
      calling('file_write', { content: 'inside' }),
    ]);
    expect(await racing).toMatchObject({ success: true, data: { stdout: expect.stringContaining('swapped') } });
    expect([...seen].some((it) => it.includes('as it was'))).toBe(false);
    expect(contentOf(arena.outside)).toEqual(before);
  });
});
