// Plain JavaScript that any Node parses, so that an old one gets a sentence and not a stack trace.
import { existsSync, readdirSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { tooOld } from './needed-node.cjs';

const at = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));

/** Folders that an entry is made of, unless it says otherwise. */
const SOURCES = ['src', 'workers'];

/**
 * Runs an entry. `bin/ringfence` and `bin/ringfenced` start this with the Node that the package brings; who chooses another
 * one is told if it is too old. `sources` are what the entry is made of.
 */
export async function start(name, sources = SOURCES) {
  const refusal = tooOld('ringfence', 'program');
  if (refusal === undefined) return import(findEntry(name, sources));
  console.error(`${refusal} ${at('bin/ringfence')} starts it with a Node of its own.`);
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
