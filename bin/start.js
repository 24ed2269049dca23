// Plain JavaScript that any Node parses, so that an old one gets a sentence and not a stack trace.
import { existsSync, readdirSync, statSync } from 'node:fs';
import { constants } from 'node:os';
import { fileURLToPath } from 'node:url';
import { isNewEnough, sentence } from './needed-node.cjs';

const at = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));

/** Set for the process that `runAs` starts, and gone from its environment before anything else reads that. */
const WRAPPED = 'RINGFENCE_WRAPPED';

/** Sockets of a service manager that are passed on; the daemon takes two. */
const SOCKETS_MAX = 16;

/** Folders that an entry is made of, unless it says otherwise. */
const SOURCES = ['src', 'workers'];

/** Runs `main` or `cli` on a Node that is new enough: this one, or the one that a checkout brings. `bin` is the URL of the caller, `sources` what the entry is made of. */
export async function start(name, bin, sources = SOURCES) {
  if (process.env[WRAPPED]) endWithParent();
  if (isNewEnough()) return import(findEntry(name, sources));
  const ownNode = at('node_modules/.bin/node');
  if (existsSync(ownNode)) {
    process.exitCode = await runAs(ownNode, [fileURLToPath(bin), ...process.argv.slice(2)]);
  } else {
    console.error(sentence('ringfence'));
    process.exitCode = 78;
  }
}

/** Ends this process as SIGTERM does when its parent ends, however that ends: the kernel closes the channel even on SIGKILL. */
function endWithParent() {
  delete process.env[WRAPPED];
  // The sockets of a service manager that were meant for the parent are passed on to this process.
  if (process.env.LISTEN_PID === String(process.ppid)) process.env.LISTEN_PID = String(process.pid);
  process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'));
  // Waiting for that is no reason to stay.
  process.channel?.unref();
}

/**
 * Runs `program` as this process's other half: signals go on to it, and it never outlives this one. An old Node can't replace
 * itself by another program, so that there are two processes. Gives the exit code.
 */
async function runAs(program, args) {
  const { spawn } = await import('node:child_process');
  const env = { ...process.env, [WRAPPED]: '1' };
  const { LISTEN_PID, LISTEN_FDS } = process.env;
  const sockets = LISTEN_PID === String(process.pid) ? Math.min(Number(LISTEN_FDS) || 0, SOCKETS_MAX) : 0;
  const passed = Array.from({ length: sockets }, (_, at) => 3 + at);
  const child = spawn(program, args, { stdio: ['inherit', 'inherit', 'inherit', ...passed, 'ipc'], env });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => {
      // Ctrl-C at a terminal reaches both by itself; a second one would cut short what the first began.
      if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal);
    });
  }
  return new Promise((resolve) => {
    child.once('exit', (status, signal) => resolve(status ?? 128 + (constants.signals[signal] ?? 0)));
  });
}

/** The built form, which takes 40 MiB less in each process, unless a checkout's sources are newer than it. */
export function findEntry(name, sources = SOURCES) {
  const built = at(`dist/src/${name}.js`);
  if (!existsSync(at('src'))) return `file://${built}`;
  const isFresh = existsSync(built) && newest(sources) < statSync(built).mtimeMs;
  return `file://${isFresh ? built : at(`src/${name}.ts`)}`;
}

function newest(sources) {
  const files = sources.flatMap((source) =>
    source.endsWith('.ts')
      ? at(source)
      : readdirSync(at(source), { recursive: true, withFileTypes: true })
          .filter((it) => it.name.endsWith('.ts'))
          .map((it) => `${it.parentPath ?? it.path}/${it.name}`),
  );
  return Math.max(...files.map((file) => statSync(file).mtimeMs));
}
