/** Checks the layout: who may import whom, what must not be imported at all, sizes, names, generated files. */
import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { CODES, RPC_CODES } from '../src/errors.ts';
import { defaultLimits } from '../src/limits.ts';
import { builtinTools } from '../src/tools/builtin.ts';
import { findOwnDecisions, OWN_DECISIONS } from './support/own-decisions.ts';
import { titlesWithoutSubject } from './support/test-titles.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const files = globSync('{src,workers}/**/*.ts', { cwd: root }).sort();
const texts = new Map(files.map((file) => [file, readFileSync(join(root, file), 'utf8')]));

/** Parts that import nothing but themselves. */
const ALONE = [
  'fencing limits protected-names powers text/values native native-programs text/charset text/held-bytes',
  'secret-source preview daemon/user-dirs text/host-names text/json daemon/log-file text/shown-text',
  'plugin-code tools/file-changes tools/capability tools/source tools/runs tools/connected tools/versions',
  'tools/rare-parameters tools/details tools/file-spellings tools/data-text',
];

/** The parts (a file of src, or a folder) that a part may import beside itself. docs/architecture.md says why. */
const MAY_IMPORT: Record<string, string> = {
  ...Object.fromEntries(ALONE.flatMap((it) => it.split(' ')).map((part) => [part, ''])),
  ...{ 'daemon/disk': 'limits', paths: 'protected-names', errors: 'text/shown-text', redact: 'text/values' },
  polling: 'powers',
  runtime: 'native-programs',
  'text/glob': 'errors',
  secrets: 'errors limits policy text/json',
  toolchains: 'limits paths text/json',
  market: 'connectors limits plugins text/json',
  telemetry: 'call errors limits text/json powers secret-source',
  call: 'errors preview result-shapes',
  'result-shapes': 'errors',
  'daemon/config':
    'agents connectors/search daemon/command-environment databases fleet/policy fleet/workspaces limits paths daemon/user-dirs policy providers secrets telemetry text/values toolchains tools/context tools/package',
  'daemon/log': 'daemon/log-file powers text/shown-text',
  'daemon/command-environment': 'paths',
  transport: 'errors limits native powers',
  panel: 'errors limits text/json powers store transport',
  protocol: 'call errors limits text/json text/shown-text powers transport preview result-shapes',
  'policy/bundle': 'limits policy text/json',
  policy: 'call errors text/glob limits text/json paths powers tools/tool text/shown-text text/values',
  store: 'call daemon/disk errors limits text/json paths redact powers text/shown-text preview',
  sandbox: 'call errors limits native native-programs paths powers sandbox/etc',
  egress: 'limits policy powers redact',
  plugins: 'call errors limits text/json plugin-code pipeline policy powers tools',
  hosts:
    'call egress plugin-code polling text/values sandbox protocol policy errors limits paths powers protected-names text/shown-text tools/context preview',
  ...{ 'hosts/background': '', 'hosts/quarantine': 'errors hosts paths powers protected-names sandbox text/json' },
  'hosts/follower': 'call errors hosts limits native-programs paths policy powers sandbox',
  'hosts/slots': 'call errors hosts limits powers sandbox',
  'hosts/shadow': 'hosts/follower limits powers protocol text/values',
  browser: 'call egress errors hosts limits policy powers sandbox tools/context',
  pipeline:
    'browser call telemetry egress protected-names text/held-bytes tools/context tools/lifecycle tools/package tools/path-parameters tools/tool tools/runs policy store hosts redact text/glob paths errors limits powers text/shown-text text/values preview written-paths',
  providers:
    'redact text/values call errors hosts limits pipeline policy powers secret-source text/shown-text sandbox store tools/catalogue tools/declarations tools/declared-effects tools/registry tools/tool tools/runs tools/versions',
  session:
    'fencing pipeline telemetry text/held-bytes text/shown-text redact store tools/registry tools/declarations tools/runs tools/tool tools/tools call errors limits powers policy protocol hosts transport tools/catalogue paths preview',
  'written-paths': 'paths',
  'tools/tool':
    'call errors limits plugin-code tools/path-parameters tools/capability tools/context tools/file-changes tools/lifecycle tools/separable tools/source tools/spellings tools/terminals tools/runs tools/connected tools/versions',
  'tools/runs': 'plugin-code tools/capability tools/connected tools/context',
  'tools/context': 'errors preview',
  'tools/path-parameters': 'text/glob',
  'tools/lifecycle': 'tools/tool',
  'tools/search-program': 'tools/lifecycle tools/tool',
  'tools/separable': 'errors',
  'tools/terminals': 'tools/tool',
  'tools/package': 'errors limits text/json text/values tools/context tools/edit tools/terminal tools/tool',
  'tools/edit': 'limits errors tools/file-changes tools/tool text/charset',
  'tools/builtin': 'tools',
  'tools/catalogue': 'pipeline',
  'tools/portable': 'tools/rare-parameters text/values',
  'tools/declarations': 'tools/registry',
  'tools/declared-effects': 'call errors limits',
  'tools/nulls': 'text/values',
  'tools/spellings': 'text/json text/values',
  'tools/kept': 'preview tools/git tools/tool',
  'tools/registry': 'call pipeline policy runtime text/shown-text text/values tools',
  'tools/selection': 'tools/tool text/glob errors',
  'tools/file-text': 'tools/tool errors text/charset',
  'tools/file':
    'tools/tool tools/details tools/edit tools/file-changes tools/file-spellings tools/file-text tools/path-parameters tools/rare-parameters tools/search-program tools/selection tools/spellings text/glob errors',
  'tools/workspace': 'tools/search-program tools/source tools/tool tools/path-parameters tools/rare-parameters errors',
  'tools/data': 'tools/tool tools/data-text tools/file-text errors',
  'tools/database': 'call errors limits tools/context tools/tool',
  'tools/terminal': 'errors limits tools/context tools/lifecycle tools/rare-parameters tools/runs tools/tool',
  'tools/git': 'tools/lifecycle tools/rare-parameters tools/tool errors paths',
  'tools/todo': 'tools/tool errors',
  'tools/task': 'errors limits tools/rare-parameters tools/tool',
  'tools/toolchain': 'tools/tool errors',
  'tools/access': 'tools/tool errors',
  'tools/tools': 'errors tools/capability tools/declarations tools/tool',
  'tools/code':
    'errors limits text/json text/values tools/context tools/edit tools/rare-parameters tools/search-program tools/selection tools/source tools/tool',
  'tools/http': 'tools/rare-parameters tools/tool tools/web errors limits',
  'tools/web': 'call tools/context tools/tool errors limits',
  workers:
    'redact browser call daemon/disk egress plugin-code plugins tools sandbox hosts protocol policy providers text/glob errors limits text/json paths polling powers preview',
  adapters: 'call client',
  testing:
    'call client connectors daemon/config daemon/daemon daemon/serve errors limits paths plugins powers runtime secrets store/approvals text/json text/values tools/registry tools/runs tools/tool transport workers',
  client: 'call protocol store transport errors limits powers tools preview',
  cli: 'call client daemon/command-environment daemon/config errors limits text/json paths pipeline daemon/user-dirs plugins policy powers protocol providers runtime sandbox text/shown-text store transport tools daemon/workspaces',
  'daemon/workspaces': 'daemon/config errors paths daemon/user-dirs powers',
  'daemon/daemon': '*',
  'daemon/daemon-hosts':
    'browser call daemon/config daemon/records daemon/services hosts pipeline/execute powers providers runtime session/operator store',
  'daemon/trace-export': 'egress hosts limits policy powers runtime sandbox secret-source telemetry',
  'daemon/warm-hosts': 'call daemon/workspaces hosts pipeline/execute policy powers session tools/registry',
  'daemon/daemon-policies': 'daemon/config daemon/records daemon/workspaces limits paths policy powers session tools',
  mcp: 'call telemetry errors limits text/json powers protocol policy providers session text/shown-text store transport tools',
  'mcp-bridge': 'cli daemon/user-dirs mcp transport',
  'daemon/git-author': 'hosts sandbox limits powers',
  'daemon/records': 'errors store session redact limits powers',
  main: 'daemon/serve transport workers',
  'daemon/hand-over': 'limits powers text/json transport',
  'daemon/ending': 'daemon/listeners powers session',
  'daemon/upgrade': 'daemon/hand-over daemon/notify errors limits powers transport',
  'daemon/state-lock': 'limits powers store daemon/user-dirs',
  'daemon/listeners':
    'daemon/config daemon/workspaces errors limits mcp panel powers protocol runtime session transport',
  'daemon/panel': 'daemon/listeners daemon/records limits panel powers session',
  'daemon/idle-exit': 'powers',
  'daemon/notify': 'daemon/command-environment native powers',
  'daemon/serve':
    'daemon/config daemon/daemon daemon/hand-over daemon/idle-exit daemon/log daemon/notify daemon/state-lock daemon/upgrade daemon/user-dirs fleet policy powers runtime transport',
  'cli/audit': 'cli client errors limits powers store/audit',
  'cli/call': 'call cli client egress limits store/approvals text/json text/shown-text preview',
  'cli/ci': 'cli cli/audit daemon/user-dirs errors limits policy powers store/audit text/shown-text tools/registry',
  'cli/conform': 'cli limits powers protocol text/json',
  'cli/connectors':
    'cli cli/state connectors daemon/config daemon/user-dirs limits plugins policy secrets tools/registry tools/runs',
  connectors:
    'call egress errors limits pipeline plugins policy powers secrets text/json text/shown-text text/values tools/catalogue tools/connected tools/declared-effects tools/nulls tools/runs tools/tool tools/versions',
  'connectors/openapi': 'connectors limits plugins text/json text/shown-text text/values',
  'connectors/search':
    'connectors errors limits pipeline policy powers secrets text/shown-text text/values tools/connected tools/tool tools/web',
  fleet: 'client fencing limits powers store text/json',
  'fleet/workspaces': 'errors hosts limits paths policy powers protocol sandbox session text/json tools/git',
  'fleet/placed': 'call errors fencing fleet limits mcp powers protocol text/json text/values transport',
  'fleet/policy': 'fleet limits policy powers text/json',
  'fleet-node': 'client fleet limits powers workers',
  agents: 'egress errors limits pipeline policy secrets tools/task tools/runs tools/tool',
  databases: 'connectors errors hosts limits pipeline policy powers protocol sandbox secrets text tools/context',
  'daemon/services':
    'agents connectors daemon/config daemon/records daemon/user-dirs daemon/workspaces databases fleet hosts pipeline/execute policy powers providers runtime sandbox secrets session tools/catalogue tools/registry',
  'cli/databases':
    'call cli cli/call cli/state client daemon/config daemon/user-dirs databases limits text/json text/shown-text tools/context',
  'cli/doctor':
    'cli cli/databases client daemon/config daemon/user-dirs errors limits policy powers runtime sandbox sandbox/git sandbox/proof store text/shown-text tools/registry',
  'cli/fleet':
    'cli cli/ci cli/monitor client daemon/user-dirs errors fleet limits panel policy powers protocol runtime store text/json text/values transport',
  'cli/init':
    'cli daemon/command-environment daemon/config daemon/user-dirs daemon/workspaces paths policy text/json tools/registry',
  'cli/install': 'cli daemon/user-dirs runtime text/json text/values',
  'cli/market':
    'cli cli/connectors connectors daemon/config errors limits market plugins powers runtime sandbox text/json tools/package',
  'cli/monitor': 'call cli client daemon/user-dirs powers runtime store/audit telemetry text/shown-text',
  'cli/service': 'cli daemon/config daemon/user-dirs runtime store',
  'cli/shell': 'call cli cli/call cli/install client daemon/user-dirs paths runtime text/json text/values',
  'cli/skeletons': 'cli runtime',
  'cli/state': 'cli daemon/user-dirs limits powers runtime secrets store text/json text/values toolchains tools',
  'cli/tasks': 'call cli cli/call client store store/approvals text/shown-text tools/task',
  'cli/verbs':
    'cli cli/audit cli/call cli/connectors cli/databases cli/doctor cli/fleet cli/init cli/install cli/monitor cli/service cli/shell cli/skeletons cli/tasks client daemon/user-dirs market powers runtime store/audit transport',
  'pipeline/approve':
    'call errors limits paths pipeline policy protected-names store/approvals text/glob text/shown-text text/values tools/runs tools/tool preview store',
  'pipeline/batch': 'call errors limits pipeline powers text/values',
  'pipeline/doors':
    'call egress errors limits paths pipeline policy powers sandbox store/approvals text/host-names tools/runs written-paths',
  'pipeline/execute':
    'agents browser call egress errors hosts limits paths pipeline policy powers protected-names sandbox/etc store text/charset text/json text/shown-text text/values tools/connected tools/context tools/package tools/registry tools/task tools/tool tools/runs preview redact',
  'pipeline/queue': 'call errors hosts limits pipeline policy powers tools/runs tools/tool',
  'policy/schema': 'call policy text/glob text/shown-text',
  'policy/secrets': 'limits paths',
  'policy/shell': 'call limits policy text/json',
  'sandbox/cgroup': 'errors limits powers sandbox',
  'sandbox/command': 'call errors limits native powers sandbox sandbox/cgroup sandbox/git',
  'sandbox/etc': 'policy sandbox',
  'sandbox/git': 'limits paths powers sandbox sandbox/command',
  'sandbox/proof': 'limits powers sandbox',
  'sandbox/terminal': 'errors limits powers sandbox sandbox/command',
  'session/connections':
    'call errors fencing limits pipeline policy powers protocol session tools/catalogue tools/tool transport',
  'session/delegation': 'call errors limits pipeline policy powers protocol session store tools/runs',
  'session/operator': 'call errors limits pipeline policy powers protocol redact result-shapes session store',
  'session/undo': 'call errors hosts limits paths pipeline powers preview protected-names protocol session store',
  'store/approvals': 'call errors limits powers result-shapes store text/host-names text/json text/values',
  'store/audit': 'call errors limits powers store text/json text/shown-text',
  'workers/agent': 'errors hosts limits pipeline/execute text/json text/values workers workers/isolate',
  'workers/browser': 'browser errors limits powers sandbox text/json text/values',
  'workers/code': 'errors limits powers text/json text/values tools/source tools/tool workers workers/symbols',
  'workers/database': 'databases egress errors limits policy powers protocol text tools/context workers',
  'workers/context':
    'call errors hosts limits paths policy powers sandbox sandbox/command tools/context tools/file-changes tools/lifecycle tools/source tools/terminals tools/tool workers workers/code workers/search workers/duckdb workers/sqlite workers/symbols workers/terminals workers/undo preview workers/preview',
  'workers/duckdb': 'errors limits powers tools/context workers workers/database workers/sqlite',
  'workers/host': 'errors hosts limits polling powers protocol sandbox sandbox/command tools',
  'workers/isolate': 'errors hosts limits plugin-code plugins powers protocol text/json workers',
  'workers/pages': 'errors limits text/charset text/json text/shown-text tools/context',
  'workers/preview': 'errors limits paths preview sandbox text/json tools workers',
  'workers/provider': 'errors limits powers providers sandbox text/json',
  'workers/search': 'errors limits powers sandbox text/glob tools/tool workers/context',
  'workers/sqlite':
    'errors hosts limits powers text/json text/values tools/context tools/file-changes workers workers/context workers/undo',
  'workers/symbols': 'errors limits powers sandbox tools/edit tools/source tools/tool workers workers/code',
  'workers/terminals':
    'egress errors hosts limits native-programs powers sandbox sandbox/command sandbox/terminal tools/terminals tools/tool workers',
  'workers/shadow': 'daemon/disk hosts limits paths powers sandbox/git text/glob workers/context workers/undo',
  'workers/undo': 'call daemon/disk errors hosts limits paths powers tools/file-changes tools/tool workers/context',
};

/** A folder, a folder in it, or a single file where those of a folder have rows of their own. */
function partOf(file: string): string {
  const [top, ...rest] = file.replace(/\.ts$/, '').split('/') as [string, ...string[]];
  const [first = '', second, third] = top === 'workers' ? [top, ...rest] : rest;
  const isRoom = third !== undefined || ['tools', 'daemon', 'text'].includes(first);
  return isRoom && second ? `${first}/${second}` : first;
}

function importsOf(file: string): { specifier: string; target: string | undefined }[] {
  const found = [...(texts.get(file) as string).matchAll(/(?:from|import\() ?'([^']+)'/g)].map((it) => it[1] as string);
  const targetOf = (it: string) => (it.startsWith('.') ? relative(root, join(root, dirname(file), it)) : undefined);
  return found.map((specifier) => ({ specifier, target: targetOf(specifier) }));
}

test.each(files)('%s imports only what its part may', (file) => {
  const part = partOf(file);
  const allowed = MAY_IMPORT[part];
  expect(allowed, `${part} has no row in the table`).toBeDefined();
  if (allowed === '*') return;
  const wrong = importsOf(file)
    .map(({ target }) => target && partOf(target))
    .filter((it): it is string => it !== undefined && it !== part)
    .filter((it) => ![part, ...(allowed as string).split(' ')].some((may) => it === may || it.startsWith(`${may}/`)));
  expect(wrong).toEqual([]);
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
    const entries = 'src/cli.ts src/mcp-bridge.ts src/testing.ts workers/perimeter.ts';
    expect(occurrences(/process\.env/, entries.split(' '))).toEqual([]);
  });
  test('the clock, timers and randomness: powers', () => {
    const uses = /Date\.now\(|new Date\(\)|performance\.now|setTimeout\(|Math\.random|randomBytes/;
    expect(occurrences(uses, ['src/powers.ts', 'workers/isolate/program-wrapper.ts'])).toEqual([]);
  });
  test('JSON that others wrote: parse-json; elsewhere what we wrote, single strings, and whether it is JSON', () => {
    const ours =
      'text/json daemon/log runtime daemon/user-dirs daemon/workspaces sandbox/proof/proof policy/built-in-policies cli/connect cli/install/file-changes protocol/json store/call-store store/audit/checkpoints store/audit/verify store/undo-journal store/checkpoints store/audit/entry tools/data-text';
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

test('no files import each other in a circle; imports of types alone are gone when they run', () => {
  const imports = new Map(files.map((file) => [file, valueImportsOf(file)]));
  const done = new Set<string>();
  const circles: string[] = [];
  const visit = (file: string, way: readonly string[]): void => {
    if (way.includes(file)) circles.push([...way.slice(way.indexOf(file)), file].join(' > '));
    if (done.has(file) || way.includes(file)) return;
    for (const it of imports.get(file) ?? []) visit(it, [...way, file]);
    done.add(file);
  };
  for (const file of files) visit(file, []);
  expect(circles).toEqual([]);
});

/** The files that a file imports values from. */
function valueImportsOf(file: string): string[] {
  const found = [...(texts.get(file) as string).matchAll(/^(?:import|export)\s([^;]*?)from '(\.[^']+)'/gm)];
  return found.flatMap(([, names = '', specifier = '']) => {
    const isTypes = /^\s*type\b/.test(names) || /^\s*\{(\s*type [^,}]+,?)+\s*\}\s*$/.test(names);
    return isTypes ? [] : [relative(root, join(root, dirname(file), specifier))];
  });
}

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

test('src/tools/builtin.ts and workers/host/tool-loaders.ts are what `npm run gen` writes', () => {
  const squeeze = (text: string) => text.replaceAll(/[\s,]+/g, ' ').trim();
  const written = ['src/tools/builtin.ts', 'workers/host/tool-loaders.ts'].map((it) => texts.get(it) as string);
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
  const all = files.map((it) => (it === 'src/limits.ts' ? '' : texts.get(it))).join('\n');
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
