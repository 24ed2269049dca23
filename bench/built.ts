/**
 * Makes benches measure the built code, whatever a fresh clone or a pull did to the times of files: bin/start.js runs the
 * sources if one of them is newer than dist/, and sources start slower and take more memory.
 */
import { execFileSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { runtime } from '../src/base/runtime.ts';

const at = (path: string): string => fileURLToPath(new URL(`../${path}`, import.meta.url));

/** Prints which code the benches measure. Builds dist/ first if the programs would run the sources; throws if they still would. */
export async function measureBuilt(): Promise<void> {
  if (!isBuilt(await entries())) {
    console.log('dist/ is older than a source: building it');
    execFileSync(process.execPath, [at('script/build.ts')], { stdio: 'inherit' });
  }
  const all = await entries();
  if (!isBuilt(all)) throw new Error(`the built code is to be measured, but what runs is ${all.join(', ')}`);
  console.log(`measures the built code, dist/ of ${statSync(at('dist/src/entries/main.js')).mtime.toISOString()}`);
}

/** Which code bin/ringfence and bin/ringfenced would run now. */
async function entries(): Promise<readonly string[]> {
  const { findEntry } = (await import(at('bin/start.js'))) as { findEntry(name: string): string };
  return ['entries/main', 'entries/cli'].map((it) => fileURLToPath(findEntry(it)));
}

const isBuilt = (files: readonly string[]): boolean => files.every((it) => it.startsWith(at('dist/')));

/** The same program from dist/, for a bench that starts hosts itself. */
export const builtProgram = (program: readonly string[]): readonly string[] =>
  program.map((it) => it.replace(at('workers/'), at('dist/workers/')).replace(/\.ts$/, '.js'));

/** What the sandboxes of such hosts must show. */
export const builtRuntime = { ...runtime, needed: [...runtime.needed, at('dist')] } as const;
