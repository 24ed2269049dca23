/**
 * Everything that is not deterministic: clock, timers, random ids, processes, log. The entries create it once and
 * pass it on; tests pass their own. Architecture invariant: no other file of src/ and workers/ reads a clock,
 * sets a timer or makes a random value.
 */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';

export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** A running timer; cancelling it twice, or after it fired, does nothing. */
export interface Timer {
  cancel(): void;
}

export interface Powers {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Milliseconds of a monotonic clock. */
  monotonicMs(): number;
  /** Calls `fn` once after `delayMs`; never keeps the process alive. */
  after(delayMs: number, fn: () => void): Timer;
  /** Calls `fn` every `everyMs`; never keeps the process alive. */
  every(everyMs: number, fn: () => void): Timer;
  /** A fresh UUIDv7: unique, and in order of time. */
  uuid(): string;
  /** 32 random bytes as hex, for credentials. */
  secret(): string;
  spawn(command: string, args: readonly string[], options: SpawnOptions): ChildProcess;
  /** Gives the job that runs in place of a command's; only daemons under test have it. */
  double?<Asked extends { readonly tool: string; readonly input: unknown }>(request: Asked): Promise<Asked>;
  readonly log: Log;
}

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} };

export function systemPowers(log: Log = silentLog): Powers {
  return {
    now: () => Date.now(),
    monotonicMs: () => performance.now(),
    after(delayMs, fn) {
      const timer = setTimeout(fn, delayMs).unref();
      return { cancel: () => clearTimeout(timer) };
    },
    every(everyMs, fn) {
      const timer = setInterval(fn, everyMs).unref();
      return { cancel: () => clearInterval(timer) };
    },
    uuid: () => uuidV7(Date.now()),
    secret: () => randomBytes(32).toString('hex'),
    spawn: (command, args, options) => spawn(command, args, options),
    log,
  };
}

/** The kernel's monotonic clock in microseconds, which service managers compare with their own. */
export const monotonicUsec = (): bigint => process.hrtime.bigint() / 1000n;

/** Milliseconds since the machine started, those included in which it slept; the same for all of its processes. */
export const bootMs = (): number => Number.parseFloat(readFileSync('/proc/uptime', 'latin1')) * 1000;

/**
 * Calls `fn` after all pending promise callbacks. Node runs `nextTick` callbacks before promise callbacks; one queued
 * from a microtask runs after them.
 */
export function afterMicrotasks(fn: () => void): void {
  queueMicrotask(() => process.nextTick(fn));
}

/** Resolves after `ms`. */
export const pause = (ms: number, { after }: Pick<Powers, 'after'>): Promise<void> =>
  new Promise((resolve) => void after(ms, resolve));

/** Waits; throws the reason of an abort. */
export async function waitUnlessAborted(
  ms: number,
  { signal, powers }: { signal: AbortSignal; powers: Pick<Powers, 'after'> },
): Promise<void> {
  signal.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const leave = () => {
      timer.cancel();
      reject(signal.reason as Error);
    };
    const timer = powers.after(ms, () => {
      signal.removeEventListener('abort', leave);
      resolve();
    });
    signal.addEventListener('abort', leave, { once: true });
  });
}

/** Calls `fn` when the signal aborts, at once if it has; not any more once the result is disposed. */
export function onAbort(signal: AbortSignal, fn: () => void): Disposable {
  if (signal.aborted) fn();
  signal.addEventListener('abort', fn, { once: true });
  return { [Symbol.dispose]: () => signal.removeEventListener('abort', fn) };
}

/** A signal that aborts `ms` from now, with this reason, unless the block that holds it ends before. */
export function abortAfter(
  ms: number,
  powers: Pick<Powers, 'after'>,
  reason?: Error,
): Disposable & { readonly signal: AbortSignal } {
  const controller = new AbortController();
  const timer = powers.after(ms, () => controller.abort(reason));
  return { signal: controller.signal, [Symbol.dispose]: () => timer.cancel() };
}

/** A random number from 0 to 1. */
export const fraction = ({ secret }: Pick<Powers, 'secret'>): number =>
  Number.parseInt(secret().slice(0, 8), 16) / 2 ** 32;

/** Whether `promise` settles within `ms`; it never rejects. */
export function settlesWithin(promise: Promise<unknown>, ms: number, powers: Pick<Powers, 'after'>): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = powers.after(ms, () => resolve(false));
    const settled = () => {
      timer.cancel();
      resolve(true);
    };
    promise.then(settled, settled);
  });
}

let lastMs = 0;
let sequence = 0;

/** UUIDv7 (RFC 9562) with a 12-bit counter in `rand_a`, so that the ids of one process sort in the order of their creation. */
function uuidV7(nowMs: number): string {
  if (nowMs > lastMs) {
    lastMs = nowMs;
    sequence = 0;
  } else if (++sequence > 0xfff) {
    lastMs += 1;
    sequence = 0;
  }
  const time = lastMs.toString(16).padStart(12, '0');
  const counter = (0x7000 | sequence).toString(16);
  // The variant and 62 random bits are the same in each version. Node generates UUIDs in blocks, but random bytes one call at a time.
  const tail = randomUUID().slice(19);
  return `${time.slice(0, 8)}-${time.slice(8)}-${counter}-${tail}`;
}
