/** The promises of every tool, checked on each tool through a real daemon. */
import { execFileSync } from 'node:child_process';
import {
  cpSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { ModelServer } from '../../src/testing/model-server.ts';
import { builtinToolset, toolsOf } from '../../src/tools/registry.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { toolPromises } from '../support/contract.ts';
import { type OpenDaemon, openDaemon, removeTree, temporaryDir } from '../support/daemon.ts';
import { makeDatabase } from '../support/sqlite.ts';

/** Asks nobody; denied calls stay denied. */
const ALLOW = `rules:
  - { id: requests, match: { tool: [http_request, "web_*"] }, decision: allow, reason: The policy lists no host. }
  - { id: commits, match: { tool: git_commit }, decision: allow, reason: The examples are ours. }
approvals: { headless: deny }
`;

const toolset = builtinToolset();
const tools = toolsOf(toolset);
let daemon: OpenDaemon;
let client: Client;
let models: ModelServer;
/** A repository that is copied before each test, which takes a tenth of making one. */
const repositoryTemplate = join(temporaryDir('contract'), 'repo');

beforeAll(async () => {
  makeRepository(repositoryTemplate);
  const databases = { shop: { kind: 'sqlite', path: 'shop.db', access: 'write' } };
  models = await ModelServer.start([{ text: 'In settings.ts.' }]);
  const agents = { default: { dialect: 'openai', url: models.url, model: 'scripted' } };
  daemon = await openDaemon({ policy: ALLOW, config: { databases, agents } });
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  await models[Symbol.asyncDispose]();
  removeTree(dirname(repositoryTemplate));
});

/** Makes a repository with one commit and one untracked file; hidden, so that it does not disturb other tests. */
function makeRepository(folder: string): void {
  mkdirSync(folder);
  writeFileSync(join(folder, 'a.txt'), 'one\n');
  writeFileSync(join(folder, '.env'), 'TOKEN=1\n');
  const git = (...args: string[]) => execFileSync('git', args, { cwd: folder });
  git('init', '-q', '-b', 'main');
  git('config', 'user.name', 'Ada');
  git('config', 'user.email', 'ada@example.org');
  git('add', '-A', '-f');
  git('commit', '-qm', 'first');
  writeFileSync(join(folder, 'new.txt'), 'new\n');
}

/** Restores the workspace that the examples expect. */
beforeEach(() => {
  for (const name of readdirSync(daemon.workspace))
    rmSync(join(daemon.workspace, name), { recursive: true, maxRetries: 5 });
  mkdirSync(join(daemon.workspace, 'docs'), { recursive: true });
  writeFileSync(join(daemon.workspace, 'notes.txt'), 'first line\nsecond line\nthird line\n');
  writeFileSync(join(daemon.workspace, 'docs/guide.md'), '# Guide\n');
  writeFileSync(join(daemon.workspace, '.env'), 'TOKEN=1\n');
  symlinkSync('/etc/passwd', join(daemon.workspace, 'out'));
  cpSync(repositoryTemplate, join(daemon.workspace, '.repo'), { recursive: true });
});

/** Makes sources for tools that read them; examples of other tools count files. */
function makeSources(folder: string): void {
  mkdirSync(folder);
  writeFileSync(join(folder, 'hello.ts'), "export function greet() { return 'hello'; }\n");
  writeFileSync(join(folder, 'main.ts'), "import { greet } from './hello.ts';\ngreet();\n");
}

const SHOP = "CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO users VALUES (1, 'Ada'), (2, 'Bob')";

function prepareFor(tool: Tool): void {
  if (tool.category === 'code_analysis') makeSources(join(daemon.workspace, 'lib'));
  if (tool.category === 'database') makeDatabase(join(daemon.workspace, 'shop.db'), SHOP);
}

/** The whole content of a workspace: files by content and mode, links by target. */
function contentOf(workspace: string): string[] {
  return readdirSync(workspace, { recursive: true, encoding: 'utf8' })
    .sort()
    .map((name) => {
      const at = join(workspace, name);
      const stat = lstatSync(at);
      const inside = stat.isSymbolicLink() ? readlinkSync(at) : stat.isFile() ? readFileSync(at, 'base64') : '';
      return `${name} ${stat.mode.toString(8)} ${inside}`;
    });
}

for (const tool of tools)
  toolPromises(tool, {
    client: () => client,
    prepare: () => prepareFor(tool),
  });

test.each(tools.filter((it) => it.tier === 'write').map((it) => [it.name, it] as const))(
  '%s leaves everything byte for byte as it was when an example fails',
  async (name, tool: Tool) => {
    prepareFor(tool);
    const before = contentOf(daemon.workspace);
    for (const example of tool.examples.filter((it) => 'error' in it)) {
      const result = await client.call(name, example.input);
      expect(result).toMatchObject({ success: false });
      expect(result.metadata.filesChanged ?? []).toEqual([]);
      expect(contentOf(daemon.workspace)).toEqual(before);
    }
  },
);

test.each(tools.filter((it) => it.preview).map((it) => [it.name, it] as const))(
  '%s previews without changing anything, and names what it would replace or remove',
  async (name, tool: Tool) => {
    prepareFor(tool);
    const before = contentOf(daemon.workspace);
    const named: string[] = [];
    for (const example of tool.examples.filter((it) => 'output' in it)) {
      const result = await client.call(name, example.input, { preview: true });
      expect(contentOf(daemon.workspace)).toEqual(before);
      const { preImages } = (result as { data: { preImages: { path: string }[] } }).data;
      named.push(...preImages.map((it) => it.path));
    }
    expect(named.length).toBeGreaterThan(0);
  },
);

test.each(tools.filter((it) => it.cacheable).map((it) => [it.name, it] as const))(
  '%s says that it is cacheable, and its second answer comes from the cache',
  async (name, tool: Tool) => {
    prepareFor(tool);
    // Changes may hide in a tick of the file system's clock: files this young are not witnessed.
    await new Promise((resolve) => setTimeout(resolve, 100));
    const input = tool.examples.find((it) => 'output' in it)?.input;
    const [, second] = [await client.call(name, input), await client.call(name, input)];
    expect(second).toMatchObject({ success: true, metadata: { cached: true } });
  },
);

test('an alias is its tool, defaults included', () => {
  const missing = tools.flatMap((tool) =>
    tool.aliases.flatMap(({ name }) => {
      const parsed = tool.examples.flatMap(({ input }) => {
        try {
          return [toolset.get(name)?.parse(input as Record<string, unknown>) as Record<string, unknown>];
        } catch {
          return []; // Its parameters have other names.
        }
      });
      return parsed.filter((it) => !isDeepStrictEqual(it, tool.input.parse(it))).map(() => name);
    }),
  );
  expect(missing).toEqual([]);
  expect(toolset.get('task')?.parse({ prompt: 'x' })).toHaveProperty('maxCycles');
});

test('names and aliases are each used once', () => {
  const all = tools.flatMap((it) => [it.name, ...it.aliases.map((alias) => alias.name)]);
  expect(new Set(all).size).toBe(all.length);
  expect(all.length).toBe(toolset.size);
});

test('documentation of every tool is a heading of docs/tools.md, and its dependencies are tools', async () => {
  const { homepage } = JSON.parse(readFileSync('package.json', 'utf8')) as { homepage: string };
  const headings = [...readFileSync('docs/tools.md', 'utf8').matchAll(/^## (.+)$/gm)].map(([, it]) => it);
  const listed = await client.tools();
  expect(listed.length).toBe(tools.length);
  for (const { documentation, dependencies } of listed) {
    const url = new URL(documentation as string);
    expect(`${url.origin}${url.pathname}`).toBe(`${homepage.split('#')[0]}/blob/main/docs/tools.md`);
    expect(headings).toContain(url.hash.slice(1));
    for (const it of dependencies) expect(toolset.has(it), it).toBe(true);
  }
});
