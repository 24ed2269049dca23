import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findChromium, INSTALL_CHROMIUM } from '../../src/sandbox/chromium.ts';
import { runCli } from '../../test/support/cli.ts';
import { dataOf, startDaemon, until } from '../../test/support/daemon.ts';
import { defineBench } from '../bench.ts';
import { bareScreenshot, startPages } from '../floors/web.ts';
import { inTurns, median, type Taken } from '../measure.ts';

const CONNECTOR = (host: string) => `
connector: pages
base: http://${host}
private: true
auth: { kind: none }
operations:
  get:
    description: Gets a page.
    request: { method: GET, path: /100 }
    input: {}
    output: { status: status }
`;

const KB = 1_000;

export default defineBench({
  title: 'Web',
  question: 'What do reading and showing pages cost, beside a bare request and Chromium?',
  async run(bench) {
    await using pages = await startPages();
    const { host } = pages;
    await using daemon = await startDaemon({
      policy: `tiers:\n  external_api: { decision: allow, network: { allow: ["${host}"] } }\n`,
    });
    await using client = await daemon.connect({ role: 'operator' });
    const call = (tool: string, input: object) => dataOf(client.call(tool as string, input as never));
    const at = (path: string) => `http://${host}/${path}`;
    const file = join(daemon.stateDir, 'pages.yaml');
    writeFileSync(file, CONNECTOR(host));
    const added = await runCli(daemon, ['connector', 'add', file]);
    if (added.code !== 0) throw new Error(added.stderr);
    await until(async () => ((await client.request('status', {})) as { connectors: object[] }).connectors.length === 1);

    const of100 = at(String(100 * KB));
    const floor = 'http_request, 100 KB';
    writeFileSync(join(daemon.workspace, 'page.txt'), 'words of a page\n'.repeat((100 * KB) / 16));
    const taken = await inTurns(
      {
        [floor]: () => call('http_request', { url: of100 }),
        'web_fetch, 100 KB': () => call('web_fetch', { url: of100 }),
        'file_read, 100 KB': () => dataOf(client.call('file_read', { path: 'page.txt' }, { cache: false })),
        'web_fetch, 100 KB, from the cache': () => call('web_fetch', { url: at(`kept/${100 * KB}`) }),
        'web_fetch, 2.6 MB': () => call('web_fetch', { url: at(String(2_600 * KB)) }),
        'http_request, 100 bytes': () => call('http_request', { url: at('100') }),
        'a connector, 100 bytes': () => call('pages__get', {}),
      },
      { rounds: bench.size(2, 10), times: bench.size(1, 5), warmRounds: bench.size(1, 3) },
    );
    bench.times(taken, {
      over: {
        'web_fetch, 100 KB': floor,
        'web_fetch, 100 KB, from the cache': 'file_read, 100 KB',
        'a connector, 100 bytes': 'http_request, 100 bytes',
      },
      goals: {
        'web_fetch, 100 KB, from the cache': { most: 3 },
        'web_fetch, 2.6 MB': { most: 400 },
      },
    });
    bench.value('web_fetch of 100 KB, beyond http_request', more(taken['web_fetch, 100 KB'], taken[floor]), 'ms', {
      most: 15,
    });
    const bare = taken['http_request, 100 bytes'];
    bench.value('a connector, beyond http_request', more(taken['a connector, 100 bytes'], bare), 'ms', { most: 3 });

    const chromium = findChromium();
    if (!chromium) return bench.skip('web_screenshot', INSTALL_CHROMIUM);
    const url = at(String(10 * KB));
    const shown = await inTurns(
      {
        'Chromium by itself': () => bareScreenshot(chromium.program, url),
        web_screenshot: () => call('web_screenshot', { url }),
      },
      { rounds: bench.size(1, 7), times: 1, warmRounds: 1 },
    );
    bench.times(shown, { over: 'Chromium by itself' });
    bench.value('web_screenshot, beyond Chromium', more(shown.web_screenshot, shown['Chromium by itself']), 'ms', {
      most: 150,
    });
  },
});

/** The milliseconds by which a subject takes longer than another, round by round. */
const more = (taken: Taken, floor: Taken): number =>
  median(taken.map((round, at) => median([...round]) - median([...(floor[at] as Taken[number])])));
