/** A real Chromium for tests of the panel, and a page of it that is signed in at a daemon. */
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import type { Client } from '../../src/client/client.ts';
import { findChromium } from '../../src/sandbox/chromium.ts';

/** Path of the machine's Chromium; undefined if there is none. */
export const chromiumPath: string | undefined = findChromium()?.program;

/** For the title of a test: where it runs, or why it does not. */
export const byChromium = chromiumPath
  ? 'in Chromium'
  : 'skipped: this machine has no Chromium; script/bootstrap installs it where it may';

export async function startBrowser(program: string | undefined = chromiumPath): Promise<Browser> {
  // Chromium's own sandbox refuses to run as root.
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
  return chromium.launch({ executablePath: program as string, args });
}

/** What a page said that nobody expects: errors of scripts, messages of its policy. */
export type Complaints = string[];

/** Opens a new tab. Adds to `complaints` what it logs as an error. */
export async function newPage(context: Browser | BrowserContext, complaints: Complaints): Promise<Page> {
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (it) => {
    if (it.type() === 'error') complaints.push(it.text());
  });
  return page;
}

/** The URL that signs a page in, once. */
export const panelUrl = async (operator: Pick<Client, 'request'>): Promise<string> =>
  ((await operator.request('panel.open', {})) as { url: string }).url;

/** Opens the panel in a new tab, and waits until it is connected. */
export async function openPanel(
  context: Browser | BrowserContext,
  operator: Pick<Client, 'request'>,
  complaints: Complaints,
): Promise<Page> {
  const page = await newPage(context, complaints);
  await page.goto(await panelUrl(operator));
  await page.getByText('connected', { exact: true }).waitFor();
  return page;
}
