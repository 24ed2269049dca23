/**
 * Makes the JavaScript of dist/: each entry of ours, with the packages that it reads at once, in a few files. Node takes
 * twice as long for the same code in five hundred. And the built-in policies as they were read. Run by `npm run build`.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';
import './build-native.ts';
import { toBuilt } from '../src/policy/built-in.ts';
import { BUILT_IN } from '../src/policy/load.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

/** What is started, or imported by others, by its path; a file that is only imported by ours is a part of these. */
const ENTRIES = [
  ...['main', 'cli', 'client', 'mcp-bridge'].map((it) => `src/${it}`),
  ...['host', 'worker', 'egress', 'isolate', 'provider', 'compartment'].map((it) => `workers/${it}`),
  ...['compartment-thread', 'screen-thread', 'syntax-process', 'watch-thread'].map((it) => `workers/${it}`),
];

/** Plain JavaScript that nearly every start reads. Others are native, have files of their own to find, or are read by few. */
const INLINED = ['zod', 'yaml', 'unbash', 'dot-prop', 'lru-cache', 'pidusage'];
const isInlined = (id: string) => INLINED.some((it) => id === it || id.startsWith(`${it}/`));
const isOurs = (id: string) => /^[./]/.test(id);

/** One letter beyond Latin-1 has V8 keep the whole text with two bytes a letter. Without comments, such letters are in strings and patterns only. */
function toAscii(code: string): string {
  if (/\\[\u0080-\uffff]/.test(code)) throw new Error('a backslash before a letter that is to be escaped');
  return code.replaceAll(/[\u0080-\uffff]/g, (it) => `\\u${it.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

const bundle = await rolldown({
  cwd: root,
  input: Object.fromEntries(ENTRIES.map((it) => [it, `${it}.ts`])),
  platform: 'node',
  external: (id) => !isOurs(id) && !isInlined(id),
});
const { output } = await bundle.generate({
  // V8 keeps the text of what it runs.
  comments: false,
  entryFileNames: '[name].js',
  // Code of a worker looks for other files of workers beside itself.
  chunkFileNames: ({ moduleIds }) =>
    `${moduleIds.some((it) => it.startsWith(join(root, 'workers'))) ? 'workers' : 'src'}/[name]-[hash].js`,
});
for (const it of output) {
  if (it.type !== 'chunk') throw new Error(`${it.fileName} is no code`);
  const path = join(root, 'dist', it.fileName);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, toAscii(it.code));
}

const modules = output.flatMap((it) => (it.type === 'chunk' ? it.moduleIds : []));
const folders = modules.flatMap((it) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(it)?.[0] ?? []);
const notices = [...new Set(folders)].sort().map((folder) => {
  const { name, version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Record<string, string>;
  const file = readdirSync(folder).find((it) => /^licen[cs]e/i.test(it));
  if (file === undefined) throw new Error(`${name} has no licence to be told`);
  return `${name} ${version}\n\n${readFileSync(join(folder, file), 'utf8').trim()}\n`;
});
writeFileSync(join(root, 'dist/licences.txt'), notices.join(`\n${'-'.repeat(80)}\n\n`));
writeFileSync(join(root, 'dist/policies.json'), toBuilt(BUILT_IN));
