/** Which host a call gets, and when hosts are started, replaced and ended. The hosts are records without a process. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ToolError } from '../../../src/base/errors.ts';
import { defaultLimits, type Limits } from '../../../src/base/limits.ts';
import { systemPowers } from '../../../src/base/powers.ts';
import type { HeldMasks, HostKey } from '../../../src/hosts/host-masks.ts';
import { type Slot, type SlotHost, Slots } from '../../../src/hosts/slots/slots.ts';
import { NO_MASKS } from '../../../src/sandbox/masks.ts';
import { until } from '../../support/daemon.ts';

interface PlainHost extends SlotHost {
  alive: boolean;
  takesJobs: boolean;
  worn: boolean;
  jobs: number;
  kept: number;
  idleSince: number;
}

let nowMs: number;
let timers: (() => void)[];
let started: PlainHost[];
/** Errors of the next starts; none for a start that succeeds. */
let failures: (ToolError | undefined)[];
let print: string;
let slots: Slots<PlainHost>;
beforeEach(() => {
  [nowMs, timers, started, failures, print] = [0, [], [], [], 'first'];
  slots = make();
});
afterEach(() => slots[Symbol.asyncDispose]());

function make(limits: Partial<Limits> = {}, begin: (key: HostKey) => PlainHost = start): Slots<PlainHost> {
  const powers = {
    ...systemPowers(),
    monotonicMs: () => nowMs,
    after: (_: number, fn: () => void) => {
      timers.push(fn);
      return { cancel() {} };
    },
  };
  const held = (): HeldMasks => ({ masks: NO_MASKS, fingerprint: print, root: 'root' });
  const masks = {
    of: async () => held(),
    isAsOf: (_: HostKey, of: { root: string }) => of.root === 'root',
    settle: async () => {},
    reap() {},
  };
  return new Slots({ start: begin, masks, limits: { ...defaultLimits, ...limits } }, powers);
}

function start(): PlainHost {
  const failure = failures.shift();
  const gone = Promise.withResolvers<void>();
  const host: PlainHost = {
    alive: failure === undefined,
    takesJobs: failure === undefined,
    worn: false,
    jobs: 0,
    kept: 0,
    idleSince: nowMs,
    pid: started.length + 1,
    threads: 1,
    gone: gone.promise,
    endSession() {},
    reapThreads() {},
    answers: async () => {},
    ready: failure ? Promise.reject(failure) : Promise.resolve(),
    kill() {
      host.alive = host.takesJobs = false;
      gone.resolve();
    },
  };
  host.ready.catch(() => {}); // Only some tests wait for it.
  started.push(host);
  return host;
}

const keyOf = (workspace: string): HostKey => ({ tier: 'write', workspace, view: { key: '', rules: [], home: '' } });
const slotOf = (workspace = '/w'): Slot<PlainHost> => slots.of(keyOf(workspace));
const DEAD = new ToolError('SANDBOX_UNAVAILABLE', 'the host did not start');

test('calls of one key share a host, and calls of another key have their own', async () => {
  const [first, again, other] = await Promise.all([slotOf(), slotOf(), slotOf('/v')].map((it) => slots.ready(it)));
  expect([again, other === first]).toEqual([first, false]);
  expect(slots.atHand(slotOf())).toBe(first);
});

test('a host that died is replaced, and the slot counts it', async () => {
  const first = await slots.ready(slotOf());
  first.kill();
  expect(slots.atHand(slotOf())).toBeUndefined();
  expect(await slots.ready(slotOf())).not.toBe(first);
  expect(await slots.status()).toMatchObject([{ pid: 2, restarts: 1 }]);
});

test('a host that dies while it starts is started once more, and not a third time', async () => {
  failures = [DEAD];
  expect(await slots.ready(slotOf('/a'))).toBe(started[1]);
  const end = new ToolError('NOT_FOUND', 'the workspace is gone');
  failures = [end];
  await expect(slots.ready(slotOf('/b'))).rejects.toBe(end);
  expect(started.length).toBe(3);
});

test('starts can fail for as long as they do, and are tried again when somebody asks', async () => {
  expect(slots.canStart).toBe(true);
  failures = [DEAD, DEAD, DEAD];
  await expect(slots.ready(slotOf())).rejects.toBe(DEAD);
  expect([slots.canStart, started.length]).toEqual([false, 2]);
  nowMs += 6_000;
  expect([slots.canStart, slots.canStart]).toEqual([false, false]);
  await until(() => started.length === 3);
  nowMs += 6_000;
  expect(slots.canStart).toBe(false);
  await until(() => slots.canStart);
  expect(started.length).toBe(4);
});

test('one host that can not be started says nothing of those that are there', async () => {
  await slots.ready(slotOf('/there'));
  failures = [DEAD, DEAD];
  await expect(slots.ready(slotOf())).rejects.toBe(DEAD);
  expect(slots.canStart).toBe(true);
});

test('a worn host gets no more calls, and ends after its last job', async () => {
  const worn = await slots.ready(slotOf());
  worn.jobs = 1;
  worn.worn = true;
  expect(slots.atHand(slotOf())).toBeUndefined();
  expect(await slots.ready(slotOf())).not.toBe(worn);
  slots.release(worn);
  expect(worn.alive).toBe(true);
  worn.jobs = 0;
  slots.release(worn);
  expect(worn.alive).toBe(false);
});

test('a host whose masks are outdated is replaced once it is older than hostMasksMs', async () => {
  const first = await slots.ready(slotOf());
  print = 'second';
  expect(await slots.ready(slotOf())).toBe(first);
  nowMs = defaultLimits.hostMasksMs;
  expect(await slots.ready(slotOf())).not.toBe(first);
});

test('at hostsMax the longest idle host makes room, and none that works or keeps something', async () => {
  slots = make({ hostsMax: 3 });
  const [keeping, idle, idler] = await Promise.all(['/a', '/b', '/c'].map((it) => slots.ready(slotOf(it))));
  Object.assign(keeping as PlainHost, { kept: 1, idleSince: -9 });
  Object.assign(idler as PlainHost, { idleSince: -5 });
  const fourth = await slots.ready(slotOf('/d'));
  await idler?.gone;
  expect([keeping?.alive, idle?.alive, idler?.alive]).toEqual([true, true, false]);
  for (const it of [idle, fourth]) (it as PlainHost).jobs = 1;
  await expect(slots.ready(slotOf('/e'))).rejects.toMatchObject({ code: 'QUEUE_FULL' });
});

test('an idle host ends after hostIdleMs, unless it keeps something or a call is about to use it', async () => {
  const [idle, keeping, wanted] = await Promise.all(['/a', '/b', '/c'].map((it) => slots.ready(slotOf(it))));
  Object.assign(keeping as PlainHost, { kept: 1 });
  slotOf('/c').runs = 1;
  nowMs = defaultLimits.hostIdleMs;
  timers.shift()?.();
  await idle?.gone;
  expect([idle?.alive, keeping?.alive, wanted?.alive]).toEqual([false, true, true]);
});

test('a host for one call is no host of its slot, and counts against hostsMax', async () => {
  slots = make({ hostsMax: 1 });
  const apart = await slots.startApart(slotOf());
  expect(slots.atHand(slotOf())).toBeUndefined();
  await expect(slots.ready(slotOf())).rejects.toMatchObject({ code: 'QUEUE_FULL' });
  apart.kill();
  await apart.gone;
  expect(await slots.ready(slotOf())).not.toBe(apart);
});

test('each host ends with the slots, after which no call gets a host', async () => {
  const [first, apart] = [await slots.ready(slotOf()), await slots.startApart(slotOf())];
  await slots[Symbol.asyncDispose]();
  expect([first.alive, apart.alive]).toEqual([false, false]);
  await expect(slots.ready(slotOf())).rejects.toMatchObject({ code: 'SHUTTING_DOWN' });
});

describe('starts of hosts', () => {
  /** Hosts that start until `become` says that they are ready. */
  let become: (() => void)[];
  let asked: string[];
  const begin = (name: string, principal: string, isUrgent: boolean) => {
    const slot = slots.of({ ...keyOf(name), principal });
    return slots.start(slot, isUrgent);
  };
  beforeEach(() => {
    [become, asked] = [[], []];
    slots = make({ hostsMax: 5 }, (key) => {
      const host = start();
      asked.push(key.workspace);
      return Object.assign(host, { ready: new Promise<void>((ready) => void become.push(ready)) });
    });
  });
  afterEach(() => {
    for (const it of become) it();
    // Hosts that begin now are ready at once.
    become.push = (...all) => {
      for (const it of all) it();
      return all.length;
    };
  });

  test('two start at a time, those of calls first, and principals take turns', async () => {
    const ahead = ['a1', 'a2', 'a3', 'a4'].map((it) => begin(it, 'a', false));
    const ends = Promise.allSettled(ahead);
    const urgent = [begin('a5', 'a', true), begin('a6', 'a', true), begin('b1', 'b', true)];
    for (let at = 0; at < 3; at++) {
      await until(() => asked.length === at + 2);
      become[at]?.();
    }
    await until(() => asked.length === 5);
    expect(asked).toEqual(['a1', 'a2', 'b1', 'a5', 'a6']);
    for (const it of become) it();
    await Promise.all(urgent);
    // A host that no call waits for takes the place of no other one.
    expect((await ends).map((it) => it.status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'rejected']);
    expect(started.length).toBe(5);
  });

  test('a host that a call comes to want meanwhile goes before the others', async () => {
    for (const it of ['a1', 'a2', 'a3', 'a4']) void begin(it, 'a', false).catch(() => {}); // The slots end before.
    await until(() => asked.length === 2);
    void begin('a4', 'b', true).catch(() => {});
    become[0]?.();
    await until(() => asked.length === 3);
    expect(asked[2]).toBe('a4');
  });
});
