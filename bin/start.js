// Plain JavaScript that any Node parses, so that an old one gets a sentence and not a stack trace.
import { existsSync, readdirSync, statSync } from 'node:fs';
import { constants } from 'node:os';
import { fileURLToPath } from 'node:url';

const at = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));

/** Runs `main` or `cli` on a Node that is new enough: this one, or the one that a checkout brings. `bin` is the URL of the caller, `sources` what the entry is made of. */
export async function start(name, bin, sources = ['src', 'workers']) {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major > 24 || (major === 24 && minor >= 15)) return import(findEntry(name, sources));
  const ownNode = at('node_modules/.bin/node');
  if (existsSync(ownNode)) {
    process.exitCode = await runAs(ownNode, [fileURLToPath(bin), ...process.argv.slice(2)]);
  } else {
    console.error(`ringfence needs Node.js 24.15 or newer; this is ${process.version} (${process.execPath}).`);
    process.exitCode = 78;
  }
}

/** What is asked to end is this process: without a word of it the daemon would go on alone. Gives the exit code. */
async function runAs(program, args) {
  const { spawn } = await import('node:child_process');
  const child = spawn(program, args, { stdio: 'inherit' });
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
function findEntry(name, sources) {
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
