/** docs/design-documents.md: each row of it is held by a test that it names, or is tried here by calls of a real daemon. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../src/base/limits.ts';
import { isRecord } from '../../src/base/text/values.ts';
import type { Client } from '../../src/client/client.ts';
import { documents, page } from '../design-documents/rows.ts';
import { type OpenDaemon, openDaemon, repository } from '../support/daemon.ts';
import { makeDatabase } from '../support/sqlite.ts';

const FILES = {
  'a.txt': 'one\ntwo\nthree\n',
  'b.txt': 'first\n',
  'src/a.ts': 'export const area = (side: number): number => side * side;\n// TODO square\n',
  'src/b.ts': "import { area } from './a.ts';\nexport const text = area(2).toFixed();\n",
  '.env': 'SECRET=1\n',
};

let daemon: OpenDaemon;
let agent: Client;
let operator: Client;
beforeAll(async () => {
  daemon = await openDaemon({
    policy:
      'tiers: { write: { decision: allow, approve: [] } }\napprovals: { headless: deny }\ntools: { disable: [file_glob] }\n',
    config: { databases: { app: { kind: 'sqlite', path: 'app.db' } } },
  });
  for (const [path, text] of Object.entries(FILES)) {
    mkdirSync(dirname(join(daemon.workspace, path)), { recursive: true });
    writeFileSync(join(daemon.workspace, path), text);
  }
  makeDatabase(join(daemon.workspace, 'app.db'), "CREATE TABLE users (name TEXT); INSERT INTO users VALUES ('Ada')");
  const git = (...args: string[]) => execFileSync('git', args, { cwd: daemon.workspace, stdio: 'pipe' });
  git('init', '-q', '-b', 'main');
  git('config', 'user.name', 'Ada');
  git('config', 'user.email', 'ada@example.org');
  git('add', 'a.txt', 'b.txt', 'src');
  git('commit', '-qm', 'First');
  agent = await daemon.connect();
  operator = await daemon.connect({ role: 'operator' });
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
  await operator[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

/** `any`, `~part of a text`, `/pattern/` and `{ has: [members of a list] }` become what vitest matches by. */
function matcher(wanted: unknown): unknown {
  if (wanted === 'any') return expect.anything();
  if (typeof wanted === 'string' && wanted.startsWith('~')) return expect.stringContaining(wanted.slice(1));
  if (typeof wanted === 'string' && /^\/.*\/$/s.test(wanted)) return expect.stringMatching(wanted.slice(1, -1));
  if (Array.isArray(wanted)) return wanted.map(matcher);
  if (!isRecord(wanted)) return wanted;
  const { has, ...rest } = wanted;
  if (Array.isArray(has))
    return expect.arrayContaining(
      has.map((it) => (isRecord(it) ? expect.objectContaining(matcher(it) as object) : it)),
    );
  return Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, matcher(value)]));
}

const rows = documents.flatMap((it) => it.rows);

test('the page has a row for each feature of the five documents, and is what `npm run gen` writes', () => {
  expect(documents.map((it) => it.rows.length)).toEqual([55, 47, 39, 36, 45]);
  expect(readFileSync(join(repository, 'docs/design-documents.md'), 'utf8')).toBe(page());
});

test('a tool that a person has to set up first is refused with how that is done', async () => {
  for (const [name, code, suggestion] of [
    ['create_github_issue', 'TOOL_DISABLED', 'ringfence connector add github'],
    ['stripe__refund', 'TOOL_DISABLED', 'ringfence connector add stripe'],
    ['task', 'TOOL_NOT_FOUND', '`agents`'],
  ] as const)
    expect(await agent.call(name as string, {})).toMatchObject({
      error: { code, suggestion: expect.stringContaining(suggestion) },
    });
});

const held = rows.flatMap((it) => (it.held ? [[it.id, it.what, ...it.held] as const] : []));
test.each(held)('the row %s is held by a test: %s, in %s', (_, __, file, title) => {
  const path = join(repository, `test/${file}.test.ts`);
  expect(existsSync(path)).toBe(true);
  const quotes = ["'", '"', '`'].map((it) => `${it}${title}`);
  expect(quotes.some((it) => readFileSync(path, 'utf8').includes(it))).toBe(true);
});

describe('the rows that are tried here', () => {
  test.each(rows.flatMap((it) => (it.calls ? [[it.id, it.what, it.calls] as const] : [])))(
    'the row %s is carried out: %s',
    async (_, __, calls) => {
      for (const [name, input, wanted, whole = {}] of calls) {
        if (name.startsWith('!')) {
          expect(await operator.request(name.slice(1) as never, input as never)).toMatchObject(
            matcher(wanted) as object,
          );
          continue;
        }
        const result = await agent.call(name as string, input as never);
        const isFailure = isRecord(wanted) && 'code' in wanted;
        expect(result.success, JSON.stringify(result)).toBe(!isFailure);
        expect(result.success ? result.data : result.error, name).toMatchObject(matcher(wanted) as object);
        expect(result, name).toMatchObject(matcher(whole) as object);
      }
    },
  );

  test.each(rows.flatMap((it) => (it.limits ? [[it.id, it.what, it.limits] as const] : [])))(
    'the row %s is a limit by default: %s',
    (_, __, limits) => {
      expect(defaultLimits).toMatchObject(limits);
    },
  );
});
