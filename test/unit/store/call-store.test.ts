import { rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { ToolResult } from '../../../src/base/call.ts';
import { defaultLimits, type Limits } from '../../../src/base/limits.ts';
import { type Powers, systemPowers } from '../../../src/base/powers.ts';
import { CallStore, type NewCall } from '../../../src/store/call-store.ts';
import { temporaryDir } from '../../support/daemon.ts';

let folder: string;
let nowMs: number;
beforeEach(() => {
  folder = temporaryDir('calls');
  nowMs = 1_000_000;
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const powers: Powers = { ...systemPowers(), now: () => nowMs };
const open = (limits: Partial<Limits> = {}) =>
  new CallStore(join(folder, 'calls.db'), { ...defaultLimits, ...limits }, powers);
const call = (callId: string, more: Partial<NewCall> = {}): NewCall => ({
  callId,
  sessionId: 's',
  principal: 'p',
  tool: 't',
  digest: 'd',
  detached: true,
  intended: false,
  ...more,
});
const resultOf = (callId: string, bytes = 10) =>
  ({ callId, tool: 't', success: true, data: { bin: Buffer.alloc(bytes, 7) } }) as unknown as ToolResult;

function ended(store: CallStore, callId: string, more: Partial<NewCall> = {}, bytes = 10): void {
  store.begin(call(callId, more));
  nowMs += 1;
  store.end({ sessionId: more.sessionId ?? 's', callId }, 'done', resultOf(callId, bytes));
}

test('the store says that it can not be written for as long as that is so', () => {
  let monotonicMs = 0;
  using store = new CallStore(join(folder, 'calls.db'), defaultLimits, { ...powers, monotonicMs: () => monotonicMs });
  expect(store.writable).toBe(true);
  const other = new DatabaseSync(join(folder, 'calls.db'));
  other.exec('BEGIN EXCLUSIVE');
  expect(() => store.begin(call('a'))).toThrow('the store of calls can not be written');
  expect(store.writable).toBe(false);
  monotonicMs += 10_000;
  expect(store.writable).toBe(false);
  other.close();
  expect(store.writable).toBe(false); // Not tried again at once.
  monotonicMs += 10_000;
  expect(store.writable).toBe(true);
});

test('a result comes back as it was, bytes included, from another process too', () => {
  using first = open();
  ended(first, 'a');
  first[Symbol.dispose]();
  using store = open();
  const stored = store.detached('a', 'p');
  expect(stored).toMatchObject({ callId: 'a', sessionId: 's', status: 'done', isCut: false });
  expect(stored?.result).toMatchObject({ data: { bin: Buffer.alloc(10, 7) } });
  expect(store.detached('a', 'q')).toBeUndefined();
  expect(store.detached('a')).toMatchObject({ principal: 'p' });
  expect(statSync(join(folder, 'calls.db')).mode & 0o777).toBe(0o600);
});

test('a call that ran when the daemon ended is marked as interrupted, with what it may have done', () => {
  using first = open();
  first.begin(call('waited'));
  first.begin(call('ran'));
  first.intend({ sessionId: 's', callId: 'ran' });
  first[Symbol.dispose]();
  using store = open();
  expect(store.detached('waited', 'p')).toMatchObject({ isCut: true, intended: false, status: 'error' });
  expect(store.detached('ran', 'p')).toMatchObject({ isCut: true, intended: true, status: 'error' });
});

test('ids of a session are its own, and gone with it but for detached ones', () => {
  using store = open();
  ended(store, 'a', { detached: false });
  ended(store, 'b');
  ended(store, 'a', { detached: false, sessionId: 'other' });
  expect(store.list('p', 's').map((it) => it.callId)).toEqual(['a', 'b']);
  store.endSession('s');
  expect(store.ofSession('s', 'a')).toBeUndefined();
  expect(store.ofSession('other', 'a')).toBeDefined();
  expect(store.detached('b', 'p')).toBeDefined();
});

test('no call is kept beyond its time', () => {
  using store = open({ callsKeptMs: 1000 });
  ended(store, 'old');
  store.begin(call('open'));
  nowMs += 2000;
  store[Symbol.dispose]();
  using again = open({ callsKeptMs: 1000 });
  expect(again.detached('old', 'p')).toBeUndefined();
  expect(again.detached('open', 'p')).toMatchObject({ isCut: true });
});

describe('its bounds', () => {
  test('the bound on bytes drops the oldest results of the principal with the most, and keeps their ids', () => {
    using store = open({ callBytesKept: 100_000 });
    ended(store, 'mine', { principal: 'quiet' }, 20_000);
    for (let at = 0; at < 20; at += 1) ended(store, `c${at}`, {}, 10_000);
    expect(store.detached('mine', 'quiet')?.result).toBeDefined();
    expect(store.detached('c0', 'p')).toMatchObject({ callId: 'c0', status: 'done', isCut: false });
    expect(store.detached('c0', 'p')?.result).toBeUndefined();
    expect(store.detached('c19', 'p')?.result).toBeDefined();
  });

  test('the bound on rows drops the oldest that ended, never one that still runs', () => {
    using store = open({ callsKept: 32 });
    store.begin(call('open'));
    ended(store, 'mine', { principal: 'quiet' });
    for (let at = 0; at < 100; at += 1) ended(store, `c${at}`);
    expect(store.list('p', 'none').length).toBeLessThanOrEqual(32);
    expect(store.detached('open', 'p')).toBeDefined();
    expect(store.detached('mine', 'quiet')).toBeDefined();
    expect(store.detached('c99', 'p')).toBeDefined();
  });
});

describe('a session', () => {
  const session = {
    id: 's',
    principal: 'p',
    uid: 7,
    role: 'agent',
    client: 'c',
    workspace: '/w',
    asked: undefined,
    resumeMs: 1000,
  } as const;

  test('a session is found after its process by its secret only, in its time', () => {
    using first = open();
    first.addSession(session, 'secret');
    expect(first.sessionOf('s', 'secret')).toBeUndefined();
    first[Symbol.dispose]();
    using store = open();
    expect(store.sessionOf('s', 'secret')).toMatchObject({ principal: 'p', uid: 7, workspace: '/w', resumeMs: 1000 });
    expect(store.sessionOf('s', 'other')).toBeUndefined();
    expect(store.sessionOf('t', 'secret')).toBeUndefined();
    nowMs += 1001;
    expect(store.sessionOf('s', 'secret')).toBeUndefined();
  });

  test('a session that has ended is not found', () => {
    using first = open();
    first.addSession(session, 'secret');
    first.endSession('s');
    first[Symbol.dispose]();
    using store = open();
    expect(store.sessionOf('s', 'secret')).toBeUndefined();
  });
});

test('a file that can not be written is STORE_FAILED for what begins, and no exception for what ends', () => {
  const store = open();
  store[Symbol.dispose]();
  expect(() => store.begin(call('a'))).toThrow(/can not be written/);
  store.end({ sessionId: 's', callId: 'a' }, 'done', resultOf('a'));
});
