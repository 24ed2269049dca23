/** A real daemon with two agents at work, and pictures of each view of its panel: three widths, light and dark. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { type Client, createClient } from '../../src/client/client.ts';
import { openPanel } from './browser.ts';
import { openDaemon, removeTree, temporaryDir, until } from './daemon.ts';

const POLICY = `extends: default
rules:
  - { id: release, match: { command: [npm, publish] }, decision: ask, reason: Releases are a person's. }
  - { id: legacy, match: { delete: "src/legacy/**" }, decision: ask, reason: The old shop still runs. }
  - { id: no-push, match: { command: [git, push] }, decision: deny, reason: Open a pull request instead. }
`;
export const VIEWS =
  'inbox calls changes agents batches compose audit policy answers costs machine settings stop'.split(' ');
export const SIZES = [
  { width: 1280, height: 800 },
  { width: 800, height: 800 },
  { width: 390, height: 780 },
];

const ALL = { sizes: SIZES, views: VIEWS };

const FILES = {
  'shop/src/cart.ts': 'export const total = (prices: number[]) => prices.reduce((sum, it) => sum + it, 0);\n',
  'shop/src/prices.ts': 'export const VAT = 0.19;\nexport const currency = "EUR";\n',
  'shop/src/legacy/tax.js': 'module.exports = 0.16;\n',
  'shop/package.json': '{\n  "name": "shop",\n  "scripts": { "test": "vitest run" }\n}\n',
  'shop/AGENTS.md': '# Shop\n\nPrices are in cents.\n',
  'shop/.env': 'DATABASE_URL=postgres://shop\n',
  'cart/api.py': 'def total(prices):\n    return sum(prices)\n',
};

/** Calls that end: 40 and more, some of which fail or are refused. */
async function work(claude: Client, codex: Client): Promise<void> {
  const run = (by: Client, command: string) => by.call('terminal_execute', { command });
  await claude.request('checkpoints.name', { name: 'before-discounts' });
  for (const path of ['src/cart.ts', 'src/prices.ts', 'package.json']) await claude.call('file_read', { path });
  for (const command of ['git status --short', 'ls -la src', 'wc -l src/*.ts', 'sleep 0.4; echo 48 passed'])
    await run(claude, command);
  await claude.call('file_write', { path: 'src/discount.ts', content: 'export const DISCOUNT = 0.1;\n' });
  await claude.call('file_edit', {
    path: 'src/prices.ts',
    operations: [{ type: 'replace', search: '0.19', replace: '0.07' }],
  });
  await run(claude, "sed -i 's/vitest run/vitest run \\&\\& node report.mjs/' package.json");
  await claude.call('file_write', { path: 'AGENTS.md', content: '# Shop\n\nPrices are in cents. Round half up.\n' });
  await claude.call('file_read', { path: 'src/prices.tsx' });
  await claude.call('file_read', { path: '.env' });
  await run(codex, 'git push origin main');
  for (const command of ['python3 -c "print(12 * 7)"', 'python3 -m pyflakes api.py', 'ls', 'cat api.py', 'exit 1'])
    await run(codex, command);
  for (let at = 0; at < 20; at += 1) await codex.call('file_grep', { pattern: `prices|total${at}` });
  const batch = ['api.py', 'missing.py', 'api.py'].map((path, at) => ({
    id: `read-${at}`,
    tool: 'file_read',
    input: { path },
    ...(at === 2 && { dependsOn: ['read-1'] }),
  }));
  await codex.batch(batch, { batchId: 'release-notes' });
}

/** Six questions of five kinds, and a command that runs on. */
function ask(claude: Client, codex: Client): void {
  const run = (by: Client, command: string) => by.call('terminal_execute', { command });
  for (const it of [
    run(claude, 'npm view left-pad version'),
    claude.call('file_write', { path: '.vscode/tasks.json', content: '{\n  "version": "2.0.0",\n  "tasks": []\n}\n' }),
    run(codex, 'npm publish --tag next'),
    claude.call('access_request', { path: '.env' }),
    claude.call('file_delete', { path: 'src/legacy/tax.js' }),
    run(codex, 'python3 -c "import urllib.request as u; u.urlopen(\'https://api.openai-mirror.dev/v1\')"'),
    run(codex, 'sleep 300'),
  ])
    it.catch(() => {}); // Ends with its client.
}

/** A picture of one view. */
export type Take = (page: Page, name: { view: string; width: number; theme: 'light' | 'dark' }) => Promise<void>;

/** Hands each view to `take`, in each size and theme. */
export async function takePictures(browser: Browser, take: Take, { sizes, views } = ALL): Promise<void> {
  const place = temporaryDir('pictures');
  for (const [path, text] of Object.entries(FILES)) {
    mkdirSync(join(place, path, '..'), { recursive: true });
    writeFileSync(join(place, path), text);
  }
  const [shop, cart] = [join(place, 'shop'), join(place, 'cart')];
  const daemon = await openDaemon({ policy: POLICY, workspace: shop, args: ['--workspace', cart] });
  try {
    const client = (name: string, workspace: string) =>
      createClient({ socket: daemon.socket, workspace, name, version: '2.1' });
    await using operator = await daemon.connect({ role: 'operator' });
    await using claude = await client('claude-code', shop);
    await using codex = await client('codex', cart);
    await work(claude, codex);
    await refuse(codex, operator);
    // A page that is open is a person who can answer at the doors.
    const page = await openPanel(browser, operator, []);
    ask(claude, codex);
    await until(async () => (await waiting(operator)).length >= 6);
    await page.emulateMedia({ reducedMotion: 'reduce' });
    await page.locator('article .yes:not([aria-disabled=true])').waitFor();
    for (const size of sizes)
      for (const theme of ['light', 'dark'] as const) {
        await page.setViewportSize(size);
        await page.emulateMedia({ colorScheme: theme });
        for (const view of views) {
          await page.evaluate(`location.hash = '#/${view}'`);
          await page.waitForTimeout(600); // What a view asks for, and its first drawing.
          await take(page, { view, width: size.width, theme });
        }
      }
  } finally {
    await daemon[Symbol.asyncDispose]();
    removeTree(place);
  }
}

const waiting = async (operator: Client) =>
  ((await operator.request('approvals.list', {})) as { approvals: { approvalId: string }[] }).approvals;

/** A question that is answered with words. */
async function refuse(codex: Client, operator: Client): Promise<void> {
  const call = codex.call('terminal_execute', { command: 'npm publish' });
  await until(async () => (await waiting(operator)).length === 1);
  for (const { approvalId } of await waiting(operator))
    await operator.request('approvals.resolve', { approvalId, decision: 'deny', feedback: 'only with --tag next' });
  await call;
}
