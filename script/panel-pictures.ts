/**
 * Pictures of the panel, of a real daemon with two agents at work: `node script/panel-pictures.ts FOLDER` makes each view, light and dark,
 * wide and narrow; without a folder docs/images/panel.png alone.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import { type Client, createClient } from '../src/client/client.ts';
import { openPanel, startBrowser } from '../test/support/browser.ts';
import { openDaemon, removeTree, temporaryDir, until } from '../test/support/daemon.ts';

const POLICY = `extends: default
rules:
  - { id: release, match: { command: [npm, publish] }, decision: ask, reason: Releases are a person's. }
  - { id: legacy, match: { delete: "src/legacy/**" }, decision: ask, reason: The old shop still runs. }
  - { id: no-push, match: { command: [git, push] }, decision: deny, reason: Open a pull request instead. }
`;
const VIEWS = 'inbox calls changes agents batches compose audit policy answers costs machine settings stop'.split(' ');
const SIZES = [
  { width: 1280, height: 800 },
  { width: 390, height: 780 },
];

const [folder] = process.argv.slice(2);
const docs = fileURLToPath(new URL('../docs/images/panel.png', import.meta.url));
const place = temporaryDir('pictures');
const [shop, cart] = ['shop', 'cart'].map((name) => join(place, name)) as [string, string];

for (const [path, text] of [
  ['shop/src/cart.ts', 'export const total = (prices: number[]) => prices.reduce((sum, it) => sum + it, 0);\n'],
  ['shop/src/prices.ts', 'export const VAT = 0.19;\nexport const currency = "EUR";\n'],
  ['shop/src/legacy/tax.js', 'module.exports = 0.16;\n'],
  ['shop/package.json', '{\n  "name": "shop",\n  "scripts": { "test": "vitest run" }\n}\n'],
  ['shop/AGENTS.md', '# Shop\n\nPrices are in cents.\n'],
  ['shop/.env', 'DATABASE_URL=postgres://shop\n'],
  ['cart/api.py', 'def total(prices):\n    return sum(prices)\n'],
] as const) {
  mkdirSync(join(place, path, '..'), { recursive: true });
  writeFileSync(join(place, path), text);
}

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

/** Six questions of five kinds, and one that is answered with words. */
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

async function shoot(page: Page, path: string): Promise<void> {
  await page.emulateMedia({ reducedMotion: 'reduce' });
  await page.waitForTimeout(600);
  await page.screenshot({ path });
}

const daemon = await openDaemon({ policy: POLICY, workspace: shop, args: ['--workspace', cart] });
const browser = await startBrowser();
try {
  const client = (name: string, workspace: string) =>
    createClient({ socket: daemon.socket, workspace, name, version: '2.1' });
  await using operator = await daemon.connect({ role: 'operator' });
  await using claude = await client('claude-code', shop);
  await using codex = await client('codex', cart);
  await work(claude, codex);
  const waiting = async () =>
    ((await operator.request('approvals.list', {})) as { approvals: { approvalId: string; rule: string }[] }).approvals;
  const first = codex.call('terminal_execute', { command: 'npm publish' });
  await until(async () => (await waiting()).length === 1);
  for (const { approvalId } of await waiting())
    await operator.request('approvals.resolve', { approvalId, decision: 'deny', feedback: 'only with --tag next' });
  await first;
  // A page that is open is a person who can answer at the doors.
  const page = await openPanel(browser, operator, []);
  ask(claude, codex);
  await until(async () => (await waiting()).length >= 6).catch(() => console.error('fewer than six questions wait'));
  await page.setViewportSize(SIZES[0] as (typeof SIZES)[0]);
  await page.locator('article .yes:not([aria-disabled=true])').waitFor();
  await page.waitForTimeout(1_500);
  await page.screenshot({ path: folder ? join(folder, 'inbox-1280-light.png') : docs });
  for (const [size, colorScheme] of folder
    ? SIZES.flatMap((it) => [[it, 'light'] as const, [it, 'dark'] as const])
    : []) {
    mkdirSync(folder as string, { recursive: true });
    await page.setViewportSize(size);
    await page.emulateMedia({ colorScheme });
    for (const view of VIEWS) {
      await page.evaluate(`location.hash = '#/${view}'`);
      await shoot(page, join(folder as string, `${view}-${size.width}-${colorScheme}.png`));
    }
  }
} finally {
  await browser.close();
  await daemon[Symbol.asyncDispose]();
  removeTree(place);
}
