import { once } from 'node:events';
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { EventEmitter } from 'node:stream';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { silentLog } from '../../../src/base/powers.ts';
import { readPolicy } from '../../../src/policy/load.ts';
import type { Policy } from '../../../src/policy/schema.ts';
import { createPolicySource } from '../../../src/policy/watch.ts';
import { temporaryDir } from '../../support/daemon.ts';

let folder: string;
let file: string;
beforeEach(() => {
  folder = temporaryDir('watch');
  file = join(folder, 'p.yaml');
});
afterEach(() => rmSync(folder, { recursive: true }));

const write = (text: string, path = file) => writeFileSync(path, text, { mode: 0o600 });

/** A source whose timer the test fires: `armed` tells when a change was noticed. */
function start() {
  const events = new EventEmitter();
  const timers = new Map<object, () => void>();
  const changes: [Policy, Policy][] = [];
  const warnings: object[] = [];
  const source = createPolicySource({
    load: () => readPolicy(file),
    powers: {
      after(_, fn) {
        const timer = { cancel: () => void timers.delete(timer) };
        timers.set(timer, fn);
        events.emit('armed');
        return timer;
      },
    },
    log: { ...silentLog, warn: (fields) => void warnings.push(fields) },
    onChange: (policy, before) => void changes.push([policy, before]),
  });
  const fire = () => {
    for (const [timer, fn] of [...timers]) {
      timers.delete(timer);
      fn();
    }
  };
  return { source, changes, warnings, timers, fire, armed: () => once(events, 'armed') };
}

const execute = (policy: Policy) => policy.tiers.execute.decision;
const ALLOW = 'tiers: { execute: { decision: allow } }\n';
const DENY = 'tiers: { execute: { decision: deny } }\n';

test('without a good policy to begin with there is no source', () => {
  write('network: {}');
  expect(() => start()).toThrow(/not supported yet/);
});

describe('a change on disk', () => {
  test.each([
    ['by writing', () => write(DENY)],
    [
      'by a rename over it',
      () => {
        write(DENY, `${file}.new`);
        renameSync(`${file}.new`, file);
      },
    ],
  ])('%s switches the policy once, after the last of several', async (_, change) => {
    write(ALLOW);
    const { source, changes, fire, armed, timers } = start();
    using _source = source;
    const noticed = armed();
    change();
    change();
    await noticed;
    expect(timers.size).toBe(1);
    expect(execute(source.current)).toBe('allow');
    fire();
    expect(execute(source.current)).toBe('deny');
    expect(changes.map((it) => it.map(execute))).toEqual([['deny', 'allow']]);
  });

  test('a change of an extended file reloads the policy too', async () => {
    write('extends: base.yaml\n');
    write(ALLOW, join(folder, 'base.yaml'));
    const { source, fire, armed } = start();
    using _source = source;
    const noticed = armed();
    write(DENY, join(folder, 'base.yaml'));
    await noticed;
    fire();
    expect(execute(source.current)).toBe('deny');
  });

  test('a change to another file in the folder does not reload the policy', async () => {
    write(ALLOW);
    const { source, armed, timers } = start();
    using _source = source;
    const noticed = armed();
    write(DENY, join(folder, 'other.yaml'));
    expect(timers.size).toBe(0);
    write(DENY);
    await noticed; // If the other change counted, it would have come first.
    expect(timers.size).toBe(1);
  });
});

test('a bad file never replaces a good policy, and is taken once it is mended', () => {
  write(ALLOW);
  const { source, changes, warnings } = start();
  using _source = source;
  write('tiers: { execute: { decision: denny } }\n');
  expect(source.reload()).toEqual({
    ok: false,
    problems: [expect.stringMatching(/p\.yaml:1:31: tiers\.execute\.decision/)],
  });
  rmSync(file);
  expect(source.reload()).toMatchObject({ ok: false, problems: [expect.stringMatching(/no such file/)] });
  expect(execute(source.current)).toBe('allow');
  expect(changes).toEqual([]);
  expect(warnings).toHaveLength(2);
  write(DENY);
  expect(source.reload()).toEqual({ ok: true, problems: [] });
  expect(execute(source.current)).toBe('deny');
});

test('mending the file that a bad one extends is noticed', async () => {
  write(ALLOW);
  const { source, fire, armed } = start();
  using _source = source;
  write('network: {}\n', join(folder, 'base.yaml'));
  write('extends: base.yaml\n');
  expect(source.reload().ok).toBe(false);
  const noticed = armed();
  write(DENY, join(folder, 'base.yaml'));
  await noticed;
  fire();
  expect(execute(source.current)).toBe('deny');
});

test('a change that decides the same is loaded without an announcement', () => {
  write(ALLOW);
  const { source, changes } = start();
  using _source = source;
  write(`# a comment\n${ALLOW}`);
  expect(source.reload().ok).toBe(true);
  expect(source.current.tiers.execute.source).toBe(`${file}:2`);
  expect(changes).toEqual([]);
});

test('once disposed it reloads no more, not even for a change that was noticed', async () => {
  write(ALLOW);
  const { source, fire, armed, timers } = start();
  const noticed = armed();
  write(DENY);
  await noticed;
  const late = [...timers.values()];
  source[Symbol.dispose]();
  for (const it of late) it();
  fire();
  expect(timers.size).toBe(0);
  expect(execute(source.current)).toBe('allow');
});
