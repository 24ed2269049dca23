/**
 * The process of a daemon under test: a daemon as `ringfenced` runs it, but for its clock, which the test moves over
 * the channel to this process. Nothing but `ringfence/testing` starts it; `ringfenced` has no clock that can be moved.
 */
import { parseArgs } from 'node:util';
import { establishPerimeter } from '../../workers/perimeter.ts';
import { systemPowers } from '../base/powers.ts';
import type { FromDaemon, ToDaemon } from './messages.ts';
import { MovableClock } from './movable-clock.ts';

const { values } = parseArgs({
  options: {
    state: { type: 'string', default: '' },
    socket: { type: 'string', default: '' },
    policy: { type: 'string', default: '' },
    workspace: { type: 'string', default: '' },
    /** Milliseconds since the epoch at which the daemon's clock begins. */
    now: { type: 'string' },
  },
});
const { now, ...flags } = values;
const STDERR_FD = 2;
const environment = establishPerimeter(STDERR_FD);
const tell = (message: FromDaemon) => process.send?.(message);

// The channel closes when the test's process ends, in any way.
process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'));
process.channel?.unref();

const { serve } = await import('../daemon/serve.ts');
let clock: MovableClock | undefined;
process.on('message', ({ advanceMs }: ToDaemon) => {
  clock?.advance(advanceMs);
  tell({ kind: 'advanced', nowMs: clock?.now() ?? 0 });
});
process.channel?.unref();
await serve(
  { ...flags, workspace: [flags.workspace] },
  environment,
  (notice) => tell({ kind: 'started', ...(notice as Omit<FromDaemon & { kind: 'started' }, 'kind'>) }),
  (log) => {
    clock = new MovableClock(systemPowers(log), now === undefined ? undefined : Number(now));
    return clock.powers;
  },
);
if (process.connected) process.disconnect?.();
