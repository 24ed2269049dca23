/** Makes docs/images/panel.png, the panel's inbox with questions of a real daemon: `node script/panel-picture.ts`. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { openPanel, startBrowser } from '../test/support/browser.ts';
import { removeTree, startDaemon, temporaryDir } from '../test/support/daemon.ts';

const POLICY = 'extends: default\ntiers:\n  execute: { decision: ask }\n  write: { decision: ask }\n';
const file = fileURLToPath(new URL('../docs/images/panel.png', import.meta.url));

const folder = temporaryDir('picture');
const workspace = join(folder, 'shop');
mkdirSync(workspace);
writeFileSync(join(workspace, 'prices.ts'), 'export const VAT = 0.19;\nexport const currency = "EUR";\n');
await using daemon = await startDaemon({ policy: POLICY, workspace });
const browser = await startBrowser();
try {
  await using operator = await daemon.connect({ role: 'operator' });
  await using agent = await daemon.connect();
  const page = await openPanel(browser, operator, []);
  await page.setViewportSize({ width: 1000, height: 860 });
  const asked = [
    agent.call('file_write', {
      path: 'prices.ts',
      content: 'export const VAT = 0.07;\nexport const currency = "EUR";\n',
    }),
    agent.call('terminal_execute', { command: 'rm -r node_modules && npm install left-pad' }),
  ];
  await page.locator('article .yes:not([aria-disabled=true])').nth(1).waitFor();
  await page.screenshot({ path: file });
  for (const it of asked) it.catch(() => {});
} finally {
  await browser.close();
  removeTree(folder);
}
