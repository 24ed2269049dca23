// Plain JavaScript that any Node parses, so that an old one gets a sentence and not a stack trace.
import { existsSync, readdirSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const at = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));

/** The oldest Node that runs the daemon and the command line. */
export const NEEDED = '26.0.0';

/** Why the program can't run here; undefined if it can. */
function refusal() {
  const { platform, execPath, versions } = process;
  if (platform !== 'linux')
    return `ringfence needs Linux, and this is ${platform}; install the package \`ringfence-client\` instead, whose \`ringfence vm create\` sets up a Linux machine.`;
  if (Number.parseInt(versions.node, 10) >= Number.parseInt(NEEDED, 10)) return undefined;
  return `ringfence needs Node.js ${NEEDED} or newer; this is v${versions.node} (${execPath}). ${at('bin/ringfence')} starts it with a Node of its own.`;
}

/** Folders that an entry is made of, unless it says otherwise. */
const SOURCES = ['src', 'workers'];

/**
 * Runs an entry. `bin/ringfence` and `bin/ringfenced` start this with the Node that the package brings; who chooses another
 * one is told if it is too old. `sources` are what the entry is made of.
 */
export async function start(name, sources = SOURCES) {
  const why = refusal();
  if (why === undefined) return import(findEntry(name, sources));
  console.error(why);
  process.exitCode = 78;
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
