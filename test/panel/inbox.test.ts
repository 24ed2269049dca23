/** The panel's inbox in a real Chromium: what a person sees of a question, and that an answer counts for just that. */
import { readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { violationsOf } from '../support/axe.ts';
import { byChromium, chromiumPath, openPanel, startBrowser } from '../support/browser.ts';
import { type OpenDaemon, openDaemon, until } from '../support/daemon.ts';

const POLICY = `extends: default
tiers:
  execute: { decision: ask }
  write: { decision: ask }
`;

describe.skipIf(chromiumPath === undefined)(`the inbox of the panel (${byChromium})`, () => {
  let daemon: OpenDaemon;
  let operator: Client;
  let agent: Client;
  let browser: Browser;
  let page: Page;
  const complaints: string[] = [];

  beforeAll(async () => {
    [daemon, browser] = await Promise.all([
      openDaemon({ policy: POLICY, limits: { approvalsPerMinute: 1000, approvalsPerMinutePrincipal: 1000 } }),
      startBrowser(),
    ]);
    operator = await daemon.connect({ role: 'operator' });
  });
  afterAll(async () => {
    await browser?.close();
    await operator?.[Symbol.asyncDispose]();
    await daemon?.[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    agent = await daemon.connect();
    page = await openPanel(browser, operator, complaints);
  });
  afterEach(async () => {
    await page.close();
    await agent[Symbol.asyncDispose]();
    expect(complaints.splice(0)).toEqual([]);
  });

  const rows = () => page.getByRole('list', { name: 'Waiting' }).getByRole('button');
  const article = () => page.locator('article');
  const run = (command: string) => agent.call('terminal_execute', { command });
  const button = (name: string) => article().getByRole('button', { name, exact: false }).first();
  const yes = () => button('Allow');
  const no = () => button('Deny');
  const isArmed = () => page.locator('article .yes:not([aria-disabled=true])').waitFor();
  /** Chooses the question with this text, and waits until it takes an answer. */
  const armed = async (text: string) => {
    await rows().filter({ hasText: text }).click();
    await article().locator('h2').filter({ hasText: text }).waitFor();
    await isArmed();
  };

  test('a click approves a question, which goes when the daemon has confirmed it', async () => {
    const called = run('touch one');
    await armed('touch one');
    expect(await page.title()).toBe('(1) Ringfence');
    await yes().click();
    expect(await called).toMatchObject({ success: true, data: { exitCode: 0 } });
    await page.locator('.answered').getByText('touch one').waitFor();
    expect(await page.locator('.answered li').first().textContent()).toMatch(/^\$ touch one.*yes · ringfence\/client/);
    expect([await rows().count(), await article().count(), await page.title()]).toEqual([0, 0, 'Ringfence']);
    await page.getByText('No call waits for you.').waitFor();
  });

  test('a question says what happens, who and where, how long is left, and at most three facts; the rest is folded', async () => {
    const called = run('rm -r build && npm i');
    await armed('rm -r build');
    expect(await article().locator('h2').textContent()).toBe('$ rm -r build && npm i');
    expect(await article().locator('header p').textContent()).toMatch(
      new RegExp(`^${basename(daemon.workspace)} for ringfence/client · \\d+ s ago, (\\d min|\\d:\\d\\d) left$`),
    );
    const facts = await article().locator('.points li').allTextContents();
    expect(facts.length).toBeLessThanOrEqual(3);
    expect(facts.join()).toContain('can be undone');
    const folded = article().locator('details').getByText(daemon.workspace);
    expect(await folded.isVisible()).toBe(false);
    await page.keyboard.press('e');
    await folded.waitFor();
    expect(await article().locator('.effects').textContent()).toContain('rm -r build');
    await no().click();
    await called;
  });

  test('six questions fit on one screen with their answers in sight, j and k move, and each row says how long is left', async () => {
    const calls = [1, 2, 3, 4, 5, 6].map((at) => run(`touch many-${at}`));
    await rows().nth(5).waitFor();
    expect(await rows().nth(5).boundingBox()).toMatchObject({ y: expect.any(Number) });
    const { y = Infinity, height = 0 } = (await rows().nth(5).boundingBox()) ?? {};
    expect(y + height).toBeLessThan(720);
    expect(await rows().nth(5).locator('.left').textContent()).toMatch(/^(\d+ min|\d:\d\d)$/);
    for (const key of ['j', 'j', 'k', 'j']) await page.keyboard.press(key);
    await article()
      .locator('h2')
      .filter({ hasText: await whatOf(2) })
      .waitFor();
    await isArmed();
    const answers = await page.locator('.answers').boundingBox();
    expect((answers?.y ?? Infinity) + (answers?.height ?? 0)).toBeLessThanOrEqual(720);
    await page.getByRole('button', { name: 'Answer all of' }).click();
    await page.getByRole('checkbox').first().uncheck();
    await page.getByLabel('Words for the agent').fill('one at a time');
    await page.locator('.answers .no:not([aria-disabled=true])').click();
    await until(async () => (await rows().count()) === 1);
    await isArmed();
    await yes().click();
    const results = await Promise.all(calls);
    expect(results.filter(({ success }) => success)).toHaveLength(1);
    expect(results.filter((it) => JSON.stringify(it).includes('one at a time'))).toHaveLength(5);
  });
  const whatOf = async (at: number) => (await rows().nth(at).locator('b').textContent()) ?? '';

  test('the keys y and n answer the chosen question, and no other', async () => {
    const [first, second] = [run('touch first'), run('touch second')];
    await armed('touch second');
    await page.keyboard.press('n');
    expect(await second).toMatchObject({ success: false, error: { code: 'APPROVAL_DENIED' } });
    await article().locator('h2').filter({ hasText: 'touch first' }).waitFor();
    await isArmed();
    await page.keyboard.press('y');
    expect(await first).toMatchObject({ success: true });
  });

  test('a question is denied for the session with N, and the next such call is not asked about', async () => {
    const called = run('touch never');
    await armed('touch never');
    await page.keyboard.press('Shift+N');
    expect(await called).toMatchObject({ error: { code: 'APPROVAL_DENIED' } });
    expect(await run('touch never')).toMatchObject({ error: { code: 'APPROVAL_DENIED' } });
  });

  test('words of a denial reach the agent, and letters typed into them answer nothing', async () => {
    const called = run('rm -r build');
    await armed('rm -r build');
    await article().getByLabel('Words for the agent').pressSequentially('nobody says yes, only clean');
    expect(await rows().count()).toBe(1);
    await no().click();
    expect(await called).toMatchObject({
      error: { code: 'APPROVAL_DENIED', details: { feedback: 'nobody says yes, only clean' } },
    });
    await page.locator('.answered').getByText('no: “nobody says yes, only clean”').waitFor();
    await page.reload();
    await page.locator('.answered').getByText('no: “nobody says yes, only clean”').waitFor();
  });

  test('a question takes no answer for a second after it appears, nor does the one that takes its place', async () => {
    const above = run('touch above');
    await rows().filter({ hasText: 'touch above' }).waitFor();
    const below = run('touch below');
    await rows().filter({ hasText: 'touch below' }).waitFor();
    await armed('touch above');
    // The page's own clock says how long: the buttons tell when they are armed.
    const waitedMs = await page.evaluate(async () => {
      const button = () => document.querySelector<HTMLElement>('article .yes') as HTMLElement;
      const isOther = () => document.querySelector('article h2')?.textContent?.includes('touch below');
      const first = button();
      const until = async (is: () => boolean | undefined) => {
        while (!is()) await new Promise(requestAnimationFrame);
      };
      first.click();
      await until(isOther);
      const from = performance.now();
      button().click();
      document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'y', bubbles: true }));
      await until(() => button().getAttribute('aria-disabled') !== 'true');
      return performance.now() - from;
    });
    expect(waitedMs).toBeGreaterThan(900);
    expect(await above).toMatchObject({ success: true });
    expect(await rows().count()).toBe(1);
    await no().click();
    expect(await below).toMatchObject({ error: { code: 'APPROVAL_DENIED' } });
  });

  test('a long command is shown to its last character', async () => {
    const command = `touch ${'x/'.repeat(20_000)} && touch the-end-of-it`;
    const called = run(command);
    await armed('touch x/x/');
    await article().locator('.command').getByText('the-end-of-it').waitFor();
    expect(await article().locator('.command').textContent()).toBe(command);
    await no().click();
    await called;
  });

  test('an overwritten file is named first, with the diff and that it can be undone', async () => {
    writeFileSync(join(daemon.workspace, 'notes.txt'), 'old line\n');
    const called = agent.call('file_write', { path: 'notes.txt', content: 'new line\n' });
    await armed('notes.txt');
    const card = article();
    expect(await card.locator('h2').textContent()).toBe('replace notes.txt');
    expect(await card.locator('.effects li').first().textContent()).toBe('replaces notes.txt');
    expect(await card.locator('.diff .del').allTextContents()).toContain('-old line\n');
    expect(await card.locator('.diff .add').allTextContents()).toContain('+new line\n');
    expect(await card.locator('.points').textContent()).toContain('Undo gives all of it back');
    await yes().click();
    expect(await called).toMatchObject({ success: true });
    expect(readFileSync(join(daemon.workspace, 'notes.txt'), 'utf8')).toBe('new line\n');
  });

  test('an answer to another question than the one that was shown is refused, and the card says so', async () => {
    const lost = run('touch again');
    await armed('touch again');
    // Stands for a change that the page has not heard of yet: the answer names what was shown before.
    await page.evaluate(() => {
      const send = WebSocket.prototype.send;
      WebSocket.prototype.send = function (data) {
        const text = data as string;
        if (!text.includes('approvals.resolve')) return send.call(this, text);
        const message = JSON.parse(text) as { params: { digest: string } };
        message.params.digest = 'sha256 of what was shown before';
        WebSocket.prototype.send = send;
        send.call(this, JSON.stringify(message));
      };
    });
    await yes().click();
    await page.getByText('The question has changed since it was shown, and nothing was answered.').waitFor();
    expect(await rows().count()).toBe(1);
    await armed('touch again');
    await no().click();
    expect(await lost).toMatchObject({ error: { code: 'APPROVAL_DENIED' } });
  });

  test('an approval for this session is remembered, and the next such call asks nobody', async () => {
    const called = run('touch kept');
    await armed('touch kept');
    await article().getByRole('button', { name: 'Session', exact: false }).first().click();
    expect(await called).toMatchObject({ success: true });
    expect(await run('touch kept')).toMatchObject({ success: true });
    expect(await rows().count()).toBe(0);
  });

  test('remembered answers are listed with what they cover, and a revoked one asks again', async () => {
    const called = run('touch listed');
    await armed('touch listed');
    await page.keyboard.press('e');
    await article().getByLabel('exactly this call').check();
    await article().getByRole('combobox').first().selectOption('always');
    await button('Approve in all sessions').click();
    await called;
    await page.getByRole('link', { name: 'Answers' }).click();
    const row = page.getByRole('region', { name: 'Remembered answers' }).locator('tbody tr').last();
    expect(await row.textContent()).toMatch(
      /^yesexactly this call of terminal_executein all sessions.*panel:p_.*until /,
    );
    expect(await violationsOf(page)).toEqual([]);
    await page.setViewportSize({ width: 360, height: 640 });
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
    await row.getByRole('button', { name: 'Revoke' }).click();
    await page.getByText('Revoked: the next such call asks again.').waitFor();
    await page.getByRole('link', { name: 'Inbox' }).click();
    const again = run('touch listed');
    await armed('touch listed');
    await no().click();
    expect(await again).toMatchObject({ success: false });
  });

  test('markup in a command stays text', async () => {
    const command = 'touch "<img src=x onerror=document.title=1><script>document.title=1</script>"';
    const called = run(command);
    await armed('onerror');
    expect(await article().locator('h2').textContent()).toBe(`$ ${command}`);
    expect(await page.locator('article img, article script').count()).toBe(0);
    await no().click();
    await called;
  });

  test('a question that comes while nobody looks is told by a notice, without parameters', async () => {
    await page.context().grantPermissions(['notifications']);
    await page.evaluate(() => {
      Object.defineProperty(document, 'hidden', { value: true });
      const told: string[] = [];
      // Notes what the page shows, and shows it.
      window.Notification = class extends Notification {
        constructor(title: string, options?: NotificationOptions) {
          super(title, options);
          told.push(`${title}: ${options?.body}`);
        }
      };
      Object.assign(window, { told });
    });
    const called = run('touch hidden-name');
    await rows().filter({ hasText: 'hidden-name' }).waitFor();
    const told = () => page.evaluate(() => (window as unknown as { told: string[] }).told);
    await until(async () => (await told()).length === 1);
    expect((await told())[0]).toMatch(/^terminal_execute waits for you: /);
    expect((await told())[0]).not.toContain('hidden-name');
    await armed('hidden-name');
    await no().click();
    await called;
  });

  test('the first card is there within 300 ms of the load, at the best of ten', async () => {
    const called = run('touch soon');
    await armed('touch soon');
    await page.addInitScript(() => {
      const observer = new MutationObserver(() => {
        if (!document.querySelector('article')) return;
        observer.disconnect();
        performance.mark('first card');
      });
      observer.observe(document, { childList: true, subtree: true });
    });
    const times: number[] = [];
    for (let load = 0; load < 10; load++) {
      await page.reload();
      await article().filter({ hasText: 'touch soon' }).waitFor();
      const { cardMs, loadMs } = await page.evaluate(() => ({
        cardMs: performance.getEntriesByName('first card')[0]?.startTime ?? Infinity,
        loadMs: (performance.getEntriesByType('navigation')[0] as PerformanceNavigationTiming).loadEventEnd,
      }));
      times.push(cardMs - loadMs);
    }
    expect(Math.min(...times)).toBeLessThanOrEqual(300);
    await armed('touch soon');
    await no().click();
    await called;
  });

  test('the inbox breaks no rule of accessibility, in the light and in the dark, wide and narrow', async () => {
    const called = run('rm -r other');
    await armed('rm -r other');
    expect(await violationsOf(page)).toEqual([]);
    await page.setViewportSize({ width: 360, height: 640 });
    expect(await violationsOf(page)).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
    // A narrow screen shows the list or the question.
    await page.getByRole('button', { name: '‹ Inbox' }).click();
    await rows().first().waitFor();
    expect(await article().isVisible()).toBe(false);
    expect(await violationsOf(page)).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
    await rows().first().click();
    await no().click();
    await called;
  });
});
