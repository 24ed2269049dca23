/** A thread of a write host that knows what the workspace held before a command; it has a socket of its own to the gateway. */
import { Socket } from 'node:net';
import { workerData } from 'node:worker_threads';
import type { HostSetup } from '../src/hosts/job.ts';
import type { FromShadow, ShadowSetup, ToShadow } from '../src/hosts/shadow/shadow-messages.ts';
import { isProtected } from '../src/paths.ts';
import { silentLog, systemPowers } from '../src/powers.ts';
import { decode } from '../src/protocol/codec.ts';
import { FrameReader, FrameWriter, toFrame } from '../src/protocol/frame.ts';
import { Anchor } from './context/anchor.ts';
import { PathRules } from './context/path-rules.ts';
import { Shadow } from './shadow/shadow.ts';

const { limits, view, ...setup } = workerData as HostSetup;
const { fd, folder } = setup.shadow as ShadowSetup;
const workspace = setup.workspace as string;
const rules = new PathRules(view, workspace, limits);
const shadow = new Shadow({
  workspace,
  anchor: new Anchor(workspace, limits),
  folder,
  limits,
  powers: systemPowers(silentLog),
  isRefused: rules.refusedBelow('.'),
  isProtected: (path) => isProtected(rules.named(path)),
});
const socket = new Socket({ fd, readable: true, writable: true });
const writer = new FrameWriter(socket);
const reader = new FrameReader(limits.frameBytesMax);

socket.on('data', (chunk: Buffer) => {
  for (const payload of reader.push(chunk)) answer(decode(payload, limits) as ToShadow);
});
// The gateway is gone; the main thread notices that, too, and ends the process.
socket.on('error', () => {});
void shadow.build();

function answer(message: ToShadow): void {
  if ('begin' in message) send({ began: message.begin, state: shadow.begin(message.begin) });
  else {
    const report = shadow.end(message.end, message.key);
    if (message.key === undefined) return;
    send({ ended: message.end, ...(report === 'lost' ? { lost: true } : report && { report }) });
  }
}

function send(message: FromShadow): void {
  writer.write(toFrame(message, limits.frameBytesMax));
}
