/** Checks the layout: who may import whom, what must not be imported at all, sizes, names, generated files. */
import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { CODES, RPC_CODES } from '../src/base/errors.ts';
import { defaultLimits } from '../src/base/limits.ts';
import { builtinTools } from '../src/tools/builtin.ts';
import { findOwnDecisions, OWN_DECISIONS } from './support/own-decisions.ts';
import { titlesWithoutSubject } from './support/test-titles.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const files = globSync('{src,workers}/**/*.ts', { cwd: root }).sort();
const texts = new Map(files.map((file) => [file, readFileSync(join(root, file), 'utf8')]));

/** The rooms from the top down: a file imports its own room and those below it. docs/architecture.md draws them. */
const ORDER = [
  ...['entries', 'testing', 'cli', 'daemon', 'fleet', 'client', 'faces', 'gateway', 'workers', 'services'],
  ...['pipeline', 'hosts', 'sandbox', 'tools', 'policy', 'wire', 'store', 'base'],
];

/** The rooms of workers/ that a room there imports; files beside the rooms are programs, and put them together. */
const WORKER_ROOMS: Record<string, string> = {
  agent: 'isolate',
  code: 'symbols',
  context: 'code preview search symbols terminals undo',
  database: 'sqlite',
  duckdb: 'context database sqlite',
  preview: 'context undo',
  search: 'context',
  shadow: 'context undo',
  sqlite: 'context undo',
  symbols: 'code context',
  undo: 'context',
};

const roomOf = (file: string): string => file.split('/')[file.startsWith('src/') ? 1 : 0] as string;

function importsOf(file: string): { specifier: string; target: string | undefined }[] {
  const found = [...(texts.get(file) as string).matchAll(/(?:from|import\() ?'([^']+)'/g)].map((it) => it[1] as string);
  const targetOf = (it: string) => (it.startsWith('.') ? relative(root, join(root, dirname(file), it)) : undefined);
  return found.map((specifier) => ({ specifier, target: targetOf(specifier) }));
}

test.each(files)('%s imports its own room and those below it', (file) => {
  const above = ORDER.slice(0, ORDER.indexOf(roomOf(file)));
  expect(ORDER).toContain(roomOf(file));
  expect(importsOf(file).filter(({ target }) => target && above.includes(roomOf(target)))).toEqual([]);
});

test.each(files.filter((it) => /^workers\/.+\//.test(it)))(
  '%s imports no other room of workers than listed',
  (file) => {
    const [, room] = file.split('/') as [string, string];
    const others = importsOf(file).flatMap(({ target }) => /^workers\/(\w+)\//.exec(target ?? '')?.[1] ?? []);
    const allowed = [room, ...(WORKER_ROOMS[room]?.split(' ') ?? [])];
    expect(others.filter((it) => !allowed.includes(it))).toEqual([]);
  },
);

/** What script/without removes with each capability, and the files with a line for one. */
const without = readFileSync(join(root, 'script/without'), 'utf8');
const LISTED = [...(/^lists=\((.*)\)$/m.exec(without)?.[1]?.split(' ') ?? []), 'src/cli/verbs/capabilities.ts'];
const GENERATED = ['src/tools/builtin.ts', 'workers/host/tool-loaders.ts'];
const capabilities = [...without.matchAll(/^ {2}\[(\w+)\]='([^']*)'$/gm)].map(([, name = '', also = '']) => ({
  name,
  room: [`src/services/${name}`, `src/cli/${name}`, ...also.split(/\s+/).filter(Boolean)],
}));

test.each(capabilities)('nothing outside imports the room of $name but the lists', ({ room }) => {
  const isInside = (file: string | undefined) => room.some((it) => file === it || file?.startsWith(`${it}/`));
  const outside = files.filter((it) => !isInside(it) && !LISTED.includes(it) && !GENERATED.includes(it));
  expect(outside.filter((it) => importsOf(it).some(({ target }) => isInside(target)))).toEqual([]);
});

test('each line of src/daemon/capabilities.ts is a capability that script/without removes', () => {
  const imported = importsOf('src/daemon/capabilities.ts').flatMap(
    ({ specifier }) => /(\w+)\/capability/.exec(specifier)?.[1] ?? [],
  );
  expect(capabilities.map(({ name }) => name)).toEqual(
    expect.arrayContaining(imported.filter((it) => it !== 'services')),
  );
});

const MACHINE = /^node:(fs|child_process|net|http|https|worker_threads|vm|dgram|tls)/;
const toolFiles = files.filter((it) => it.startsWith('src/tools/'));
test.each(toolFiles)('%s reaches the machine only through ToolContext', (file) => {
  expect(importsOf(file).filter(({ specifier }) => MACHINE.test(specifier))).toEqual([]);
  expect(texts.get(file)).not.toMatch(/as (unknown as )?Checked|process\./);
});

describe('what is read in one place only', () => {
  const occurrences = (pattern: RegExp, except: string[]) =>
    files.filter((it) => /^(src|workers)\//.test(it) && !except.includes(it) && pattern.test(texts.get(it) as string));

  test('the environment: the entries, which hand it to config, and the perimeter, which empties it', () => {
    const entries =
      'src/entries/cli.ts src/entries/client.ts src/entries/client-cli.ts src/entries/mcp-bridge.ts src/testing/daemon.ts workers/perimeter.ts';
    expect(occurrences(/process\.env/, entries.split(' '))).toEqual([]);
  });
  test('the clock, timers and randomness: powers', () => {
    const uses = /Date\.now\(|new Date\(\)|performance\.now|setTimeout\(|Math\.random|randomBytes/;
    expect(occurrences(uses, ['src/base/powers.ts', 'workers/isolate/program-wrapper.ts'])).toEqual([]);
  });
  test('JSON that others wrote: parse-json; elsewhere what we wrote, single strings, and whether it is JSON', () => {
    const ours =
      'base/text/json daemon/log base/runtime daemon/user-dirs daemon/config/added sandbox/proof/proof policy/built-in-policies cli/connect cli/install/file-changes wire/protocol/json store/call-store store/audit/checkpoints store/audit/verify store/undo/undo-journal store/undo/checkpoints store/audit/entry tools/data-text';
    // ripgrep writes the names of its fields without escapes, and so do we in journals. npm's is read by programs in sandboxes.
    const plain = ['workers/search/match-records.ts', 'workers/undo/spool.ts', 'src/tools/package/programs.ts'];
    const except = [...ours.split(' ').map((it) => `src/${it}.ts`), ...plain];
    expect(occurrences(/JSON\.parse\(/, except)).toEqual([]);
  });
  test('MessagePack by msgpackr: the client; the daemon reads what strangers send with its own codec', () => {
    expect(occurrences(/from 'msgpackr/, ['src/client/message-codec.ts'])).toEqual([]);
  });
});

test('no object literal is spread into another', () => {
  expect(files.filter((it) => (texts.get(it) as string).includes('...{'))).toEqual([]);
});

test.each([...files, 'test/tidy.test.ts'])('%s has at most 400 lines', (file) => {
  expect(readFileSync(join(root, file), 'utf8').split('\n').length).toBeLessThanOrEqual(401);
});

test('no function is longer than 70 lines', () => {
  const long = files.flatMap((file) => {
    const lines = (texts.get(file) as string).split('\n');
    return lines.flatMap((line, at) => {
      const indent = /^(\s*)(export )?(default )?(async )?(function\b|[#\w[\].]+\([^;]*\)(: [^;=]+)? \{$)/.exec(
        line,
      )?.[1];
      if (indent === undefined) return [];
      const end = lines.findIndex((it, i) => i > at && it.startsWith(`${indent}}`));
      return end - at > 70 ? [`${file}:${at + 1}: ${end - at} lines`] : [];
    });
  });
  expect(long).toEqual([]);
});

test('a folder holds at most 25 files beside its own folders', () => {
  const counts = Map.groupBy(files, (it) => dirname(it));
  expect([...counts].filter(([, it]) => it.length > 25).map(([folder]) => folder)).toEqual([]);
});

test('no files import each other in a circle, not even by types', () => {
  const done = new Set<string>();
  const circles: string[] = [];
  const visit = (file: string, way: readonly string[]): void => {
    if (way.includes(file)) circles.push([...way.slice(way.indexOf(file)), file].join(' > '));
    if (done.has(file) || way.includes(file)) return;
    for (const { target } of importsOf(file)) if (target && texts.has(target)) visit(target, [...way, file]);
    done.add(file);
  };
  for (const file of files) visit(file, []);
  expect(circles).toEqual([]);
});

test('no doc comment begins with a word that stands for something said nowhere', () => {
  const vague =
    /\/\*\*\s*(?:\n\s*\* )?\s*(?:Of|It|Its|Those|They|Who|Whoever|That|By|Where|As|What is|What was)\b[^\n]*/g;
  expect(files.flatMap((it) => (texts.get(it) as string).match(vague) ?? [])).toEqual([]);
});

test('a test title names its subject', () => {
  const tests = globSync('test/**/*.test.ts', { cwd: root });
  expect(tests.flatMap((it) => titlesWithoutSubject(it, readFileSync(join(root, it), 'utf8')))).toEqual([]);
});

test('attacks and faults meet the built-in policy for commands and writes, but for a list with reasons', () => {
  expect(findOwnDecisions(root)).toEqual(Object.keys(OWN_DECISIONS));
});

test('names say what a file is for', () => {
  const vague = /(utils?|helpers?|common|misc|manager|service|handler)\.ts|(^|\/)index\.ts$/;
  expect(files.filter((it) => vague.test(it))).toEqual([]);
  expect(files.filter((it) => !/^[a-z0-9/.-]+$/.test(it))).toEqual([]);
});

test('a tool is called as its file', () => {
  for (const name of Object.keys(builtinTools))
    expect(files).toContain(`src/tools/${name.replace('_', '/').replaceAll('_', '-')}.ts`);
});

const generatedBy = (script: string): string =>
  execFileSync(process.execPath, [`script/${script}.ts`, '--print'], { cwd: root, encoding: 'utf8' });

test('the lists of tools and of what capabilities add to the command line are what `npm run gen` writes', () => {
  const squeeze = (text: string) => text.replaceAll(/[\s,]+/g, ' ').trim();
  const lists = [
    'src/tools/builtin',
    'src/cli/verbs/tool-names',
    'src/cli/verbs/capabilities',
    'workers/host/tool-loaders',
  ];
  const written = lists.map((it) => texts.get(`${it}.ts`) as string);
  expect(squeeze(written.join(''))).toBe(squeeze(generatedBy('gen-tools')));
});

test.each([
  ['configuration', 'gen-config-docs'],
  ['tools', 'gen-tool-docs'],
  ['verbs', 'gen-cli-docs'],
])('docs/%s.md is what `npm run gen` writes', (page, script) => {
  const generated = generatedBy(script);
  expect(readFileSync(join(root, `docs/${page}.md`), 'utf8')).toBe(generated);
  // Each limit has a comment for the table.
  if (page === 'configuration') expect(generated).not.toMatch(/^\| `.*\|\s*\|$/m);
});

test('every limit is read somewhere', () => {
  const all = files.map((it) => (it === 'src/base/limits.ts' ? '' : texts.get(it))).join('\n');
  expect(Object.keys(defaultLimits).filter((it) => !all.includes(it))).toEqual([]);
});

describe('docs/errors.md', () => {
  const rows = readFileSync(join(root, 'docs/errors.md'), 'utf8')
    .split('\n')
    .map((line) => line.split('|').map((it) => it.trim()));

  test('the page has every code of errors.ts with its category, layer and whether it is recoverable', () => {
    const told = rows.filter((it) => it.length === 7 && Object.hasOwn(CODES, it[1] ?? '')).map((it) => it.slice(1, 5));
    const yesOrNo = (it: boolean) => (it ? 'yes' : 'no');
    const meant = Object.entries(CODES).map(([code, it]) => [code, it.category, it.layer, yesOrNo(it.recoverable)]);
    expect(told).toEqual(meant);
  });
  test('the page has every JSON-RPC code with its number', () => {
    const told = rows
      .filter((it) => it.length === 5 && Object.hasOwn(RPC_CODES, it[1] ?? ''))
      .map((it) => [it[1], Number(it[2])]);
    expect(Object.fromEntries(told)).toEqual(RPC_CODES);
  });
});

test('the package holds all that its code reads', () => {
  const { files: packed } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { files: string[] };
  expect(packed).toEqual(expect.arrayContaining(['bin', 'dist', 'policies']));
});
