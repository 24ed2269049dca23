/** Hears of the calls on paths of a host's commands. While one runs this thread waits in the kernel, and its own messages are fetched. */
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { PathNotices } from '../src/sandbox/path-notices.ts';
import type { Walls } from '../src/sandbox/path-walls.ts';
import { PathLog } from './path-log.ts';
import { placeOf } from './path-places.ts';
import type { FromPaths, PathSetup, ToPaths } from './path-watch.ts';

/** A thread in the kernel can't be ended, so that it comes back now and then. */
const WAIT_MS = 1000;

// Nobody reads where an error comes from here, and each costs that.
Error.stackTraceLimit = 0;

const { line, parent, gone, looked } = workerData as PathSetup;
const port = parentPort as NonNullable<typeof parentPort>;
const send = (message: FromPaths) => port.postMessage(message);
let walls: Walls | undefined;
const logs = new Map<number, PathLog>();

const notices = PathNotices.open({
  line,
  ...(parent !== undefined && { parent }),
  listenerOf(token) {
    if (!logs.has(token)) fetch();
    return logs.get(token);
  },
  onGone(token, mounted) {
    const log = logs.get(token);
    const met = log && log.met.length > 0 ? log.certain(mounted()) : [];
    logs.delete(token);
    if (met.length > 0) return send({ token, met, isFast: notices?.isFast ?? false });
    Atomics.store(gone, placeOf(token), token);
    Atomics.notify(gone, placeOf(token));
  },
  onLost: (token) => send({ token, isLost: true }),
});

function take(message: ToPaths): void {
  if ('end' in message) return void logs.delete(message.end);
  walls = message.walls ?? walls;
  const token = message.begin;
  if (walls) logs.set(token, new PathLog(walls, () => Atomics.store(looked, placeOf(token), token)));
}

function fetch(): void {
  for (let it = receiveMessageOnPort(port); it; it = receiveMessageOnPort(port)) take(it.message as ToPaths);
}

function serve(paths: PathNotices): void {
  while (logs.size > 0 || paths.isAwaited) {
    const turn = paths.turn(WAIT_MS);
    if (turn === 'over') return port.close();
    if (!turn) fetch();
  }
}

port.on('message', (message: ToPaths) => {
  take(message);
  if (notices) serve(notices);
});
if (!notices) port.close();
