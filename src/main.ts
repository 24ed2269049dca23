/** `ringfenced`: perimeter, config, powers, daemon, ready notice, exit code. */
import { closeSync, writeSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { pino } from 'pino';
import { establishPerimeter } from '../workers/perimeter.ts';
import { ConfigError, loadConfig } from './config.ts';
import { createDaemon, DaemonError } from './daemon.ts';
import { PolicyError } from './policy/load.ts';
import { systemPowers } from './powers.ts';
import { SocketError } from './transport/unix-socket.ts';

/** Descriptor on which whoever started us hears that we are ready, or why not. */
const READY_FD = 3;

const { values: flags } = parseArgs({
  options: {
    socket: { type: 'string' },
    state: { type: 'string' },
    listen: { type: 'string' },
    'listen-http': { type: 'string' },
    policy: { type: 'string' },
    workspace: { type: 'string', multiple: true },
    'tell-ready': { type: 'boolean' },
  },
});
// Else V8 looks through the whole heap for each 32 MB of buffers that passed: half of the CPU time of a command's output.
setFlagsFromString('--external-memory-accounted-in-global-limit');
const environment = establishPerimeter(flags['tell-ready'] ? READY_FD : 2);
const log = pino(
  {
    level: environment.RINGFENCE_LOG ?? 'info',
    serializers: { error: pino.stdSerializers.err },
    // JSON leaves DEL and C1 as they are, and a terminal that shows the log would heed them.
    hooks: { streamWrite: (line) => line.replace(/[\x7f-\x9f]/g, (it) => `\\u00${it.charCodeAt(0).toString(16)}`) },
  },
  pino.destination({ fd: 2, sync: true }),
);

function tellReady(notice: object): void {
  if (!flags['tell-ready']) return;
  writeSync(READY_FD, `${JSON.stringify(notice)}\n`);
  closeSync(READY_FD);
}

try {
  const config = loadConfig(flags, environment, process.cwd());
  process.chdir('/');
  const daemon = await createDaemon(config, systemPowers(log));
  const { listeners, confinement } = daemon;
  log.info({ pid: process.pid, listeners, workspaces: config.workspaces, ...confinement }, 'ready');
  tellReady({ pid: process.pid, listeners, confinement });
  const alive = setInterval(() => {}, 2 ** 30);
  let asked = false;
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      // The second time at once.
      void daemon.close(asked ? 0 : config.limits.shutdownGraceMs, signal);
      if (asked) process.exit(1);
      asked = true;
    });
  }
  await daemon.ended;
  clearInterval(alive);
} catch (error) {
  const expected = [ConfigError, DaemonError, PolicyError, SocketError].some((it) => error instanceof it);
  const message = (error as Error).message;
  if (expected) log.fatal(message);
  else log.fatal({ error }, message);
  tellReady({ error: message });
  process.exitCode = expected ? 2 : 1;
}
