/**
 * The process of a daemon under test: a daemon as `ringfenced` runs it, but for its clock, which the test moves over
 * the channel to this process. Nothing but `ringfence/testing` starts it; `ringfenced` has no clock that can be moved.
 */
import { parseArgs } from 'node:util';
import { establishPerimeter } from '../../workers/perimeter.ts';
import { ToolError } from '../base/errors.ts';
import { systemPowers } from '../base/powers.ts';
import type { DoubleAnswer, FromDaemon, ToDaemon } from './messages.ts';
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
const doubles: PromiseWithResolvers<DoubleAnswer>[] = [];
process.on('message', (message: ToDaemon) => {
  if ('answered' in message) return doubles[message.answered]?.resolve(message.answer);
  clock?.advance(message.advanceMs);
  tell({ kind: 'advanced', nowMs: clock?.now() ?? 0 });
});

/** The job of a command, with what the test answers in place of its process. Throws UNSUPPORTED for one that it does not expect. */
async function doubled<Asked extends { readonly tool: string; readonly input: unknown }>(
  request: Asked,
): Promise<Asked> {
  const input = request.input as Readonly<Record<string, unknown>>;
  const key = ['command', 'script'].find((it) => typeof input[it] === 'string');
  const answered = Promise.withResolvers<DoubleAnswer>();
  const id = doubles.push(answered) - 1;
  const { tool } = request;
  tell({ kind: 'process', id, process: { tool, command: String(key ? input[key] : tool), input } });
  const { command, refused } = await answered.promise;
  if (refused === undefined && command === undefined) return request;
  if (command !== undefined && key)
    return { ...request, input: { ...input, [key]: command, ...('args' in input && { args: [] }) } };
  throw new ToolError('UNSUPPORTED', refused ?? `no test can answer for the processes of \`${tool}\``);
}
process.channel?.unref();
await serve(
  { ...flags, workspace: [flags.workspace] },
  environment,
  (notice) => tell({ kind: 'started', ...(notice as Omit<FromDaemon & { kind: 'started' }, 'kind'>) }),
  (log) => {
    clock = new MovableClock(systemPowers(log), now === undefined ? undefined : Number(now));
    return { ...clock.powers, double: doubled };
  },
);
if (process.connected) process.disconnect?.();
