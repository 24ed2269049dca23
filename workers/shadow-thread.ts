/** A thread of a write host that knows what the workspace held before a command; it has a socket of its own to the gateway. */
import { Socket } from 'node:net';
import { workerData } from 'node:worker_threads';
import { isProtected } from '../src/base/paths.ts';
import { silentLog, systemPowers } from '../src/base/powers.ts';
import { IdleHeap } from '../src/hosts/idle-heap.ts';
import type { HostSetup } from '../src/hosts/job.ts';
import type { FromShadow, ShadowSetup, ToShadow } from '../src/hosts/shadow/shadow-messages.ts';
import { decode } from '../src/wire/protocol/codec.ts';
import { BatchedWrites, FrameReader, toFrame } from '../src/wire/protocol/frame.ts';
import { Anchor } from './context/anchor.ts';
import { PathRules } from './context/path-rules.ts';
import { Shadow } from './shadow/shadow.ts';

const { limits, view, ...setup } = workerData as HostSetup;
const { fd, folder } = setup.shadow as ShadowSetup;
const workspace = setup.workspace as string;
const rules = new PathRules(view, workspace, limits);
const powers = systemPowers(silentLog);
const heap = new IdleHeap(powers);
const shadow = new Shadow({
  workspace,
  anchor: new Anchor(workspace, limits),
  folder,
  limits,
  powers,
  isRefused: rules.refusedBelow('.'),
  isProtected: (path) => isProtected(rules.named(path)),
});
const socket = new Socket({ fd, readable: true, writable: true });
const writer = new BatchedWrites(socket);
const reader = new FrameReader(limits.frameBytesMax);

socket.on('data', (chunk: Buffer) => {
  for (const payload of reader.push(chunk)) answer(decode(payload, limits) as ToShadow);
});
// The gateway is gone; the main thread notices that, too, and ends the process.
socket.on('error', () => {});

/** Commands that wait until the workspace was read; the gateway ends those that waited for too long. */
const waiting = new Set<number>();

function answer(message: ToShadow): void {
  heap.used();
  if ('folder' in message) shadow.take(message);
  else if ('follow' in message) void (message.follow ? shadow.build().then(beginWaiting) : shadow.lose());
  else if ('begin' in message) {
    waiting.add(message.begin);
    beginWaiting();
  } else if (!waiting.delete(message.end)) {
    const report = shadow.end(message.end, message.key, message.sweep);
    if (message.key === undefined) return;
    send({ ended: message.end, ...(report === 'lost' ? { lost: true } : report && { report }) });
  }
}

function beginWaiting(): void {
  // Changes were lost meanwhile: it is being read anew.
  if (shadow.state === 'building') return;
  for (const run of waiting) send({ began: run, state: shadow.begin(run) });
  waiting.clear();
}

function send(message: FromShadow): void {
  writer.write(toFrame(message, limits.frameBytesMax));
}
