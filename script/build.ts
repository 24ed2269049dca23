/**
 * Makes the JavaScript of dist/: bundles each entry with the packages that it loads at once into a few files, since
 * Node takes twice as long for the same code in five hundred; also writes the parsed built-in policies. Run by `npm
 * run build`.
 */
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';
import './build-native.ts';
import { toBuilt } from '../src/policy/built-in-policies.ts';
import { BUILT_IN } from '../src/policy/load.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

/** The entries that are started, or imported by others, by folder; files that only our code imports become part of these. */
const ENTRIES = {
  src: [
    'entries/main',
    'entries/cli',
    'entries/mcp-bridge',
    'entries/fleet-node',
    'testing/testing',
    'testing/daemon-process',
    'testing/daemon-parts',
  ],
  workers: [
    ...[
      'host',
      'worker',
      'egress',
      'database/process',
      'browser',
      'isolate',
      'provider',
      'compartment',
      'agent/agent-host',
    ],
    ...['compartment-thread', 'screen-thread', 'ruff-process', 'syntax-process', 'sqlite-process', 'duckdb/process'],
    'shadow-thread',
    'terminals/port-relay',
  ],
};

/** The library, which also old versions of Node load, and what the package `ringfence-client` has beside it. */
const LIBRARY = ['entries/client', 'client/adapters/ai', 'client/adapters/openai-agents', 'client/adapters/langchain'];
const CLIENT = [...LIBRARY, 'testing/without-daemon', 'entries/client-cli', 'entries/mcp-bridge'];
/** The oldest Node of the client, and what takes the place there of what it lacks. */
const OLD_NODE = join(root, 'packages/client/old-node.js');
const OLDEST = {
  transform: {
    target: 'node20',
    inject: { 'Promise.withResolvers': [OLD_NODE, 'withResolvers'], 'Map.groupBy': [OLD_NODE, 'groupBy'] },
  },
  alias: { 'node:util': OLD_NODE },
  outside: ['zod'],
} as const;

const { dependencies, optionalDependencies, peerDependencies } = JSON.parse(
  readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
) as Record<string, Record<string, string>>;
/** Packages that are installed beside this one: native, with files of their own, or for their types (zod). The rest is bundled. */
const INSTALLED = Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies });
const isInstalled = (id: string) => INSTALLED.some((it) => it !== 'zod' && (id === it || id.startsWith(`${it}/`)));

/**
 * Escapes characters beyond Latin-1: a single one makes V8 store the whole text with two bytes per character. Without
 * comments, these occur only in strings and patterns.
 */
function toAscii(code: string): string {
  if (/\\[\u0080-\uffff]/.test(code)) throw new Error('a backslash before a letter that is to be escaped');
  return code.replaceAll(/[\u0080-\uffff]/g, (it) => `\\u${it.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/**
 * Bundles entries of one folder. The two folders share no files: hosts load each tool on demand and the daemon all at
 * once, so a common bundle would be cut into a file for each tool.
 */
async function bundle(
  folder: keyof typeof ENTRIES,
  entries: readonly string[],
  { transform = {}, alias = {}, outside = [] as readonly string[] } = {},
) {
  const made = await rolldown({
    cwd: root,
    input: Object.fromEntries(entries.map((it) => [it, `${folder}/${it}.ts`])),
    platform: 'node',
    // The CommonJS form of jsonc-parser requires its files by names that only exist at run time, which no bundler can follow.
    resolve: { mainFields: ['module', 'main'], alias },
    external: (id) => (!(id in alias) && id.startsWith('node:')) || isInstalled(id) || outside.includes(id),
    transform,
  });
  // V8 keeps the source text in memory. Worker code looks for other worker files beside itself.
  const names = { entryFileNames: `${folder}/[name].js`, chunkFileNames: `${folder}/[name]-[hash].js` };
  const { output } = await made.generate({ comments: false, ...names });
  return output;
}

type Output = Awaited<ReturnType<typeof bundle>>;

function write(to: string, output: Output[number][]): void {
  for (const it of output) {
    if (it.type !== 'chunk') throw new Error(`${it.fileName} is no code`);
    const path = join(root, to, it.fileName);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, toAscii(it.code));
  }
}

const output = [
  ...(await bundle('src', ENTRIES.src)),
  ...(await bundle('src', LIBRARY, OLDEST)),
  ...(await bundle('workers', ENTRIES.workers)),
];
write('dist', output);
const client = await bundle('src', CLIENT, OLDEST);
rmSync(join(root, 'packages/client/dist'), { recursive: true, force: true });
write('packages/client/dist', client);
for (const it of [...LIBRARY, 'testing/without-daemon']) copyTypes(`src/${it}.d.ts`);
copyFileSync(join(root, 'LICENSE'), join(root, 'packages/client/LICENSE'));

/** Copies a file of types, and those that it imports, to the package of the client. */
function copyTypes(file: string): void {
  const to = join(root, 'packages/client/dist', file);
  if (existsSync(to)) return;
  mkdirSync(dirname(to), { recursive: true });
  copyFileSync(join(root, 'dist', file), to);
  for (const [, path] of readFileSync(to, 'utf8').matchAll(/(?:from|import\() ?["'](\.[^"']+)\.[jt]s["']/g))
    copyTypes(join(dirname(file), `${path}.d.ts`));
}

const modules = output.flatMap((it) => (it.type === 'chunk' ? it.moduleIds : []));
const folders = modules.flatMap((it) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(it)?.[0] ?? []);
/** The text of a package's licence; of those without a file what its manifest says. */
function licenceOf(folder: string): string {
  const file = readdirSync(folder).find((it) => /^licen[cs]e/i.test(it));
  if (file !== undefined) return readFileSync(join(folder, file), 'utf8').trim();
  const { license, author } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Record<string, unknown>;
  if (typeof license !== 'string') throw new Error(`${folder} names no licence`);
  return `${license} licence. Author: ${typeof author === 'string' ? author : JSON.stringify(author)}`;
}

const notices = [...new Set(folders)].sort().map((folder) => {
  const { name, version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Record<string, string>;
  return `${name} ${version}\n\n${licenceOf(folder)}\n`;
});
writeFileSync(join(root, 'dist/licences.txt'), notices.join(`\n${'-'.repeat(80)}\n\n`));
writeFileSync(join(root, 'dist/policies.json'), toBuilt(BUILT_IN));
