/** `ringfenced`, the daemon's entry: sets up the perimeter, then loads the rest. */
import { closeSync, writeSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { establishPerimeter } from '../../workers/perimeter.ts';
import { version } from '../base/runtime.ts';
import { lastInheritedFd } from '../wire/transport/inherited-sockets.ts';

/** Descriptor on which the starting process reads that the daemon is ready, or why not; with `take-over` both sides talk there. */
const READY_FD = 3;

const OPTIONS = {
  socket: { type: 'string' },
  state: { type: 'string' },
  listen: { type: 'string' },
  'listen-http': { type: 'string' },
  policy: { type: 'string' },
  fleet: { type: 'string' },
  workspace: { type: 'string', multiple: true },
  'tell-ready': { type: 'boolean' },
  foreground: { type: 'boolean' },
  'end-when-idle': { type: 'boolean' },
  'take-over': { type: 'string', multiple: true },
  'keep-socket': { type: 'string', multiple: true },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean', short: 'V' },
} as const;

/** The flags of `words`; ends the process with a sentence where one is unknown, and after telling help or the version. */
function flagsOf(words: readonly string[]) {
  try {
    const { help, version: isVersion, ...values } = parseArgs({ args: [...words], options: OPTIONS }).values;
    if (!help && !isVersion) return values;
    console.log(
      isVersion ? version : 'Runs the daemon in the foreground. `ringfence serve --help` explains its flags.',
    );
  } catch (error) {
    console.error(`ringfenced: ${(error as Error).message}; \`ringfence serve --help\` explains its flags`);
    process.exit(2);
  }
  process.exit(0);
}

const flags = flagsOf(process.argv.slice(2));
// Otherwise V8's young generation grows during the start, and an idle gateway keeps 20 MiB more.
setFlagsFromString('--semi-space-growth-factor=1');
// The perimeter also deletes systemd's `LISTEN_*` and `NOTIFY_SOCKET`, so that no child process inherits them.
const environment = establishPerimeter((env) => {
  // The sockets that another daemon hands over follow the channel to it.
  if (flags['take-over']) return READY_FD + flags['take-over'].length;
  return flags['tell-ready'] ? READY_FD : lastInheritedFd(env, process.pid);
});

function tellReady(notice: object): void {
  if (!flags['tell-ready']) return;
  writeSync(READY_FD, `${JSON.stringify(notice)}\n`);
  closeSync(READY_FD);
}

const { serve } = await import('../daemon/serve.ts');
await serve(flags, environment, tellReady);
