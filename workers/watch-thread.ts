/** Watches the names of one workspace in a thread of its own, which endless changes may keep busy. */
import { readFileSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { WatchedNames } from './watch/watched-names.ts';
import type { FromWatch, WatchMessage, WatchSetup } from './workspace-watch.ts';

const QUEUE_MAX = '/proc/sys/fs/inotify/max_queued_events';

const { workspace, ...bounds } = workerData as WatchSetup;
const port = parentPort as NonNullable<typeof parentPort>;
const send = (message: FromWatch) => port.postMessage(message);
const names = new WatchedNames(workspace, { ...bounds, queueMax: Number(readFileSync(QUEUE_MAX, 'utf8')) });

port.on('message', async ({ run, over }: WatchMessage) => {
  if (over) send({ run, changed: await names.end(run) });
  else {
    await names.begin(run);
    send({ run });
  }
});
