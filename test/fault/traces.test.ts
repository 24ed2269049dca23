/** Collectors of traces that are slow, dead or hostile: calls go on as without them, and what is lost is counted. */
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { runCli } from '../support/cli.ts';
import { type Collector, startCollector } from '../support/collector.ts';
import { dataOf, processesWith, startDaemon, type TestDaemon, until } from '../support/daemon.ts';

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const it of open.splice(0).reverse()) await it[Symbol.asyncDispose]();
});

const LIMITS = { traceExportEveryMs: 20, traceExportMs: 400, traceAttemptsMax: 2 };

async function collectorThat(answer?: Collector['answer']): Promise<Collector> {
  const collector = await startCollector();
  collector.answer = answer;
  open.push(collector);
  return collector;
}

async function daemonFor(endpoint: string, limits: object = {}): Promise<TestDaemon> {
  const telemetry = { traces: { endpoint, headers: { 'x-key': { value: 'key-of-the-operator' } } } };
  const daemon = await startDaemon({ config: { telemetry }, limits: { ...LIMITS, ...limits } });
  open.push(daemon);
  return daemon;
}

async function countsOf(daemon: TestDaemon): Promise<Record<string, number>> {
  await using operator = await daemon.connect({ role: 'operator' });
  const { text } = (await operator.request('metrics.read', {})) as { text: string };
  const found = text.matchAll(/^ringfence_trace_(?:spans_total\{result="(\w+)"\}|(queue)) (\d+)$/gm);
  return Object.fromEntries([...found].map(([, result, queue, value]) => [result ?? queue, Number(value)]));
}

/** Makes calls, and gives how long each took. */
async function callTimes(daemon: TestDaemon, count: number): Promise<number[]> {
  await using client = await daemon.connect();
  await dataOf(client.call('file_list', {}));
  const times: number[] = [];
  for (let i = 0; i < count; i++) {
    const startedAt = performance.now();
    await dataOf(client.call('file_list', {}, { cache: false }));
    times.push(performance.now() - startedAt);
  }
  return times.sort((a, b) => a - b);
}
const medianOf = (sorted: readonly number[]) => sorted[Math.floor(sorted.length / 2)];
const complaints = (daemon: TestDaemon) => daemon.log().match(/traces can not be sent/g)?.length ?? 0;

test('calls succeed with a dead collector, and the spans are counted as failed', async () => {
  const collector = await collectorThat();
  const { endpoint } = collector;
  await open.pop()?.[Symbol.asyncDispose]();
  const daemon = await daemonFor(endpoint);
  const times = await callTimes(daemon, 50);
  expect(medianOf(times)).toBeLessThan(100);
  await until(async () => ((await countsOf(daemon)).failed ?? 0) > 0);
  expect(complaints(daemon)).toBe(1);
  expect(daemon.log()).not.toContain('key-of-the-operator');
}, 30_000);

test('calls succeed with a collector that never answers, and spans beyond the bound of the queue are dropped', async () => {
  const collector = await collectorThat(() => {});
  const daemon = await daemonFor(collector.endpoint, { traceQueueMax: 40, traceExportMs: 60_000 });
  const times = await callTimes(daemon, 100);
  expect(medianOf(times)).toBeLessThan(100);
  const { queue, dropped } = await countsOf(daemon);
  expect(queue).toBe(40);
  expect(dropped).toBeGreaterThan(300);
  const startedAt = performance.now();
  daemon.process.kill('SIGTERM');
  expect(await daemon.ended).toBe(0);
  expect(performance.now() - startedAt).toBeLessThan(10_000);
}, 60_000);

test('a request that is not answered in time is tried again and then counted as failed; the next spans are sent', async () => {
  const collector = await collectorThat(() => {});
  const daemon = await daemonFor(collector.endpoint);
  await callTimes(daemon, 1);
  await until(async () => ((await countsOf(daemon)).failed ?? 0) > 0, 20_000);
  collector.answer = undefined;
  await callTimes(daemon, 1);
  await until(() => collector.spans.length > 0);
  await until(() => daemon.log().includes('the collector takes traces again'));
  expect(collector.problems).toEqual([]);
}, 60_000);

test('spans that a busy collector refuses with 503 are sent again, each once', async () => {
  let refused = 0;
  const collector = await collectorThat((incoming, response) => {
    incoming.resume();
    refused += 1;
    collector.answer = undefined;
    response.writeHead(503).end();
  });
  const daemon = await daemonFor(collector.endpoint, { traceExportMs: 10_000 });
  await callTimes(daemon, 3);
  await until(() => collector.spans.filter(({ name }) => name === 'execute_tool file_list').length === 4, 20_000);
  expect(refused).toBe(1);
  expect(new Set(collector.spans.map(({ spanId }) => spanId)).size).toBe(collector.spans.length);
}, 60_000);

test('spans that a collector rejects in an answer of success are counted, and status and doctor say why', async () => {
  const collector = await collectorThat((incoming, response) => {
    incoming.resume();
    const partialSuccess = { rejectedSpans: '3', errorMessage: 'over the quota \u001b[2J' };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ partialSuccess }));
  });
  const daemon = await daemonFor(collector.endpoint, { traceExportMs: 10_000 });
  await callTimes(daemon, 1);
  await until(async () => ((await countsOf(daemon)).rejected ?? 0) > 0);
  const { rejected = 0, failed } = await countsOf(daemon);
  expect([rejected % 3, failed]).toEqual([0, 0]);
  for (const verb of ['status', 'doctor']) {
    const { stdout } = await runCli(daemon, [verb]);
    expect(stdout).toMatch(
      /traces.* [1-9]\d* rejected by the collector; last error, .*did not take 3 spans: over the quota/,
    );
    expect(stdout).not.toContain('\u001b');
  }
}, 60_000);

test('a redirect is not followed, and a refusal is not tried again', async () => {
  const other = await collectorThat();
  const collector = await collectorThat((incoming, response) => {
    incoming.resume();
    response.writeHead(307, { location: other.endpoint }).end();
  });
  const daemon = await daemonFor(collector.endpoint);
  await callTimes(daemon, 1);
  await until(async () => ((await countsOf(daemon)).failed ?? 0) > 0);
  expect(other.bodies).toEqual([]);
}, 30_000);

/** Listens for connections, and gives each to `serve`. */
async function listenRaw(serve: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => {}));
    serve(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  open.push({
    [Symbol.asyncDispose]: async () => {
      for (const it of sockets) it.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/traces`;
}

test.each([
  ['a body without end', 'HTTP/1.1 200 OK\r\n\r\n', 'x'.repeat(65_536)],
  ['a header without end', 'HTTP/1.1 200 OK\r\nx: ', 'x'.repeat(65_536)],
  ['what is not HTTP', '\u0000\u0001\u0002 garbage\r\n\r\n', ''],
  ['the status 000', 'HTTP/1.1 000 None\r\n\r\n', ''],
])(
  'a hostile collector that answers with %s harms no call',
  async (_, head, piece) => {
    const endpoint = await listenRaw((socket) => {
      const more = () => {
        while (socket.writable && socket.write(piece));
      };
      socket.write(head);
      if (piece === '') return void socket.end();
      socket.on('drain', more);
      more();
    });
    const daemon = await daemonFor(endpoint);
    const times = await callTimes(daemon, 30);
    expect(medianOf(times)).toBeLessThan(100);
    await until(async () => {
      const { failed = 0, sent = 0 } = await countsOf(daemon);
      return failed + sent > 0;
    }, 20_000);
  },
  60_000,
);

test('a daemon that ends sends what is left, and leaves no process', async () => {
  const collector = await collectorThat();
  const daemon = await daemonFor(collector.endpoint, {
    traceExportEveryMs: 60_000,
    traceFlushMs: 10_000,
    traceExportMs: 10_000,
  });
  await callTimes(daemon, 2);
  expect(collector.bodies).toEqual([]);
  daemon.process.kill('SIGTERM');
  expect(await daemon.ended).toBe(0);
  expect(collector.spans.filter(({ name }) => name === 'execute_tool file_list')).toHaveLength(3);
  expect(processesWith(daemon.stateDir)).toEqual([]);
}, 30_000);

test.each([
  [
    'credentials in the address',
    { endpoint: 'http://ann:pw@127.0.0.1:4318/v1/traces' },
    'credentials belong in `headers`',
  ],
  ['no address', { endpoint: 'collector' }, 'telemetry.traces.endpoint'],
  [
    'a secret in the file itself',
    { endpoint: 'http://127.0.0.1:1/', headers: { authorization: 'x' } },
    'headers.authorization',
  ],
  [
    'a variable that is not set',
    { endpoint: 'http://127.0.0.1:1/', headers: { a: { env: 'NOT_SET' } } },
    'has no NOT_SET',
  ],
  ['a share over 1', { endpoint: 'http://127.0.0.1:1/', sample: 2 }, 'telemetry.traces.sample'],
])('a config with %s is refused with what is wrong', async (_, traces, message) => {
  await expect(startDaemon({ config: { telemetry: { traces } } })).rejects.toThrow(message);
});
