/** The panel of a fleet in a real Chromium: questions of two nodes, answered by the operator's key; nodes, and orders to them. */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { WebSocket as Client } from 'ws';
import { fleetFiles } from '../../src/fleet/folder.ts';
import { violationsOf } from '../support/axe.ts';
import { chromiumPath, newPage, startBrowser } from '../support/browser.ts';
import { beginCli, endOf } from '../support/cli.ts';
import type { TestDaemon } from '../support/daemon.ts';
import { linkOf, noBus, TestFleet } from '../support/fleet.ts';

const ASK = `
rules:
  - { id: notes, match: { write: "notes/**" }, decision: ask, reason: Notes are the person's. }
`;
const isMissing = noBus !== undefined || chromiumPath === undefined;

describe.skipIf(isMissing)(`the panel of a fleet (${noBus ?? 'needs Chromium'})`, () => {
  let fleet: TestFleet;
  let a: TestDaemon;
  let b: TestDaemon;
  let browser: Browser;
  let page: Page;
  let program: ChildProcess;
  let url: URL;
  const complaints: string[] = [];

  beforeAll(async () => {
    [fleet, browser] = await Promise.all([TestFleet.start(), startBrowser()]);
    a = await fleet.node('node-a', { policy: ASK }, '--label', 'gpu');
    b = await fleet.node('node-b', { policy: ASK });
  }, 240_000);
  afterAll(async () => {
    await browser?.close();
    await fleet?.[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    const nowhere = { stateDir: '/nonexistent', socket: '/nonexistent', workspace: '/' };
    const cli = beginCli(nowhere, ['fleet', 'panel', '--dir', fleet.folder, '--json']);
    program = cli;
    let said = '';
    cli.stderr.on('data', (chunk: Buffer) => (said += chunk));
    const ready = await Promise.race([once(cli.stdout, 'data'), endOf(cli)]);
    if (!Array.isArray(ready)) throw new Error(said);
    url = new URL((JSON.parse(String(ready[0])) as { url: string }).url);
    page = await newPage(browser, complaints);
    await page.goto(url.href);
    await page.getByText('connected', { exact: true }).waitFor();
  });
  afterEach(async () => {
    await page.close();
    const ended = endOf(program);
    program.kill('SIGTERM');
    expect(await ended).toBe(0);
    expect(complaints.splice(0)).toEqual([]);
  });

  const cardOf = (text: string) => page.locator('article').filter({ hasText: text });
  const row = (text: string) =>
    page.getByRole('list', { name: 'Waiting' }).getByRole('button').filter({ hasText: text });
  /** Chooses the question of a node, and waits until it takes an answer. */
  const armed = async (text: string, node = '') => {
    await row(node).first().click();
    await cardOf(text).locator('.yes:not([aria-disabled=true])').waitFor();
  };
  const note = (content: string) => ['file_write', { path: 'notes/a.md', content }] as const;

  test('questions of all nodes are shown with their nodes, and an answer counts at the node', async () => {
    await using onA = await a.connect();
    await using onB = await b.connect();
    const [first, second] = [onA.call(...note('of the first')), onB.call(...note('of the second'))];
    await row('node-b').waitFor();
    await armed('of the second', 'node-b');
    expect(await cardOf('of the second').locator('header').textContent()).toContain('on node-b');
    await armed('of the first', 'node-a');
    expect(await cardOf('of the first').locator('header').textContent()).toContain('on node-a');
    expect(await page.locator('.side').textContent()).toContain('fleet test');
    await cardOf('of the first')
      .getByRole('button', { name: /^Allow once/ })
      .click();
    expect(await first).toMatchObject({ success: true });
    await page.locator('.answered').getByText('notes/a.md').waitFor();
    expect(await page.locator('.answered li').first().textContent()).toMatch(/^write notes\/a\.md.*yes · /);
    expect(await violationsOf(page)).toEqual([]);
    await cardOf('of the second').getByLabel('Words for the agent').fill('not there');
    await cardOf('of the second').locator('.yes:not([aria-disabled=true])').waitFor();
    await cardOf('of the second').getByRole('button', { name: /^Deny/ }).click();
    expect(await second).toMatchObject({ error: { code: 'APPROVAL_DENIED', details: { feedback: 'not there' } } });
    await using operator = await a.connect({ role: 'operator' });
    const { entries } = (await operator.request('audit.query', { kind: 'approval', limit: 5 })) as {
      entries: object[];
    };
    expect(JSON.stringify(entries)).toContain('operator for fleet');
  });

  test('a question that was answered elsewhere goes, and one of a stopped node holds up no other', async () => {
    await using onA = await a.connect();
    await using onB = await b.connect();
    const link = linkOf(a);
    process.kill(link, 'SIGSTOP');
    try {
      const call = onB.call(...note('elsewhere'));
      await armed('elsewhere', 'node-b');
      await using operator = await b.connect({ role: 'operator' });
      const { approvals } = (await operator.request('approvals.list', {})) as { approvals: { approvalId: string }[] };
      await operator.request('approvals.resolve', { approvalId: approvals[0]?.approvalId, decision: 'deny' });
      expect(await call).toMatchObject({ error: { code: 'APPROVAL_DENIED' } });
      await page.getByText('Over: answered elsewhere').waitFor();
    } finally {
      process.kill(link, 'SIGCONT');
    }
    expect(await onA.call('file_list', {})).toMatchObject({ success: true });
  });

  test('nodes are listed with what they do, and are paused, drained and stopped by the operator', async () => {
    await page.getByRole('link', { name: 'Nodes' }).click();
    await page.getByText('2 of 2 are here').waitFor();
    expect(await cardOf('node-a').textContent()).toMatch(/ready.*gpu.*0 calls.*MiB|GiB free/);
    expect(await violationsOf(page)).toEqual([]);
    await page.getByRole('button', { name: 'Pause node-a' }).click();
    await page.getByText('node-a: paused').waitFor();
    await cardOf('node-a').getByText('paused', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Drain node-b' }).click();
    await cardOf('node-b').getByText('draining', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Undrain node-b' }).click();
    await page.getByText('node-b: takes sessions again').waitFor();
    await page.getByRole('button', { name: 'Resume node-a' }).click();
    await page.getByText('node-a: resumed').waitFor();
    await using client = await b.connect();
    const call = client.call(...note('never'));
    await cardOf('node-b').getByText('1 questions').waitFor();
    await page.getByRole('button', { name: /stop all nodes/ }).click({ delay: 1_500 });
    expect(await call).toMatchObject({ error: { code: 'CANCELLED' } });
    await page.getByRole('button', { name: 'Resume all' }).click();
    await page.getByText('node-b: resumed').waitFor();
  });

  /** What a WebSocket says to its first request; the HTTP status if it is refused. */
  const said = (message: object, origin?: string): Promise<object | number> => {
    const socket = new Client(`ws://${url.host}/v1`, 'ringfence.v1.json', origin === undefined ? {} : { origin });
    return new Promise((resolve, reject) => {
      socket.once('open', () => socket.send(JSON.stringify({ id: 1, ...message })));
      socket.once('unexpected-response', (_, response) => resolve(response.statusCode as number));
      socket.once('message', (data: Buffer) => {
        resolve(JSON.parse(data.toString()) as object);
        socket.terminate();
      });
      socket.once('error', reject);
    });
  };

  test('who is not signed in gets nothing, the code works once, and no page of another origin connects', async () => {
    const order = { method: 'fleet.order', params: { order: 'kill', nodes: ['node-a'] } };
    expect(await said(order)).toMatchObject({ error: { data: { code: 'NOT_READY' } } });
    const hello = { method: 'hello', params: { token: 'f'.repeat(64) } };
    expect(await said(hello)).toMatchObject({ error: { data: { code: 'UNAUTHENTICATED' } } });
    expect(await said(hello, 'http://127.0.0.1:1')).toBe(403);
    const code = url.hash.replace('#code=', '');
    const again = await fetch(new URL('/session', url), { method: 'POST', body: JSON.stringify({ code }) });
    expect(again.status).toBe(403);
    // Nothing that the page can reach has the key.
    const key = readFileSync(fleetFiles(fleet.folder).operatorKey, 'utf8').split('\n')[1] as string;
    const held = await page.evaluate(() => JSON.stringify([sessionStorage, localStorage, document.cookie]));
    expect(held).not.toContain(key);
    for (const path of ['/operator.key', '/operator/operator.key', '/../operator/operator.key'])
      expect((await fetch(new URL(path, url))).status).toBe(404);
  });

  test('an answer for another question than the page was shown counts for none', async () => {
    await using client = await a.connect();
    const call = client.call(...note('shown'));
    await armed('shown');
    const refused = await page.evaluate(async () => {
      const token = sessionStorage.getItem('ringfence.token');
      const socket = new WebSocket(`ws://${location.host}/v1`, 'ringfence.v1.json');
      const heard = () => new Promise<string>((resolve) => (socket.onmessage = ({ data }) => resolve(data as string)));
      await new Promise((resolve) => (socket.onopen = resolve));
      const ask = async (id: number, method: string, params: object) => {
        socket.send(JSON.stringify({ id, method, params }));
        return JSON.parse(await heard()) as { result?: { approvals: { approvalId: string }[] } };
      };
      await ask(1, 'hello', { token });
      const approvalId = (await ask(2, 'approvals.list', {})).result?.approvals[0]?.approvalId;
      const answer = { approvalId, digest: '0'.repeat(64), decision: 'approve' };
      const results = [await ask(3, 'approvals.resolve', answer)];
      results.push(await ask(4, 'approvals.resolve', { ...answer, remember: { scope: 'always', match: 'tool' } }));
      socket.close();
      return results;
    });
    expect(refused).toMatchObject([{ error: { data: { reason: 'APPROVAL_STALE' } } }, { error: { code: -32602 } }]);
    await cardOf('shown').getByRole('button', { name: /^Deny/ }).click();
    expect(await call).toMatchObject({ error: { code: 'APPROVAL_DENIED' } });
  });
});
