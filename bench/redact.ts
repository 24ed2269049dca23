// What does redaction cost a result, and what can a hostile one make it cost? Floors: copying the text, and secretlint's own rules. `--small` for the tests.
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { lintSource } from '@secretlint/core';
import { creator } from '@secretlint/secretlint-rule-preset-recommend';
import { RedactingStream, redactText, redactValue } from '../src/redact.ts';

const small = process.argv.includes('--small');
const MiB = 1024 * 1024;
const size = small ? MiB / 4 : 8 * MiB;

/** Best of several, in ms: of a pure function the slower runs measure the machine. */
function best(run: () => unknown, times = small ? 3 : 7): number {
  const took = Array.from({ length: times }, () => {
    const from = performance.now();
    run();
    return performance.now() - from;
  });
  return Math.min(...took);
}

const show = (name: string, value: string) => console.log(`${name.padEnd(48)} ${value}`);
const fill = (part: string, bytes: number) => part.repeat(Math.ceil(bytes / part.length)).slice(0, bytes);
const rate = (bytes: number, ms: number) => `${Math.round(bytes / 1e6 / (ms / 1000))} MB/s`;

console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}\n`);

const sources = ['../package-lock.json', '../src/limits.ts', '../test/tidy.test.ts']
  .map((it) => readFileSync(new URL(it, import.meta.url), 'utf8'))
  .join('\n');
const code = Buffer.from(fill(sources, size)).toString('latin1');
const log = fill('2026-11-21T12:18:58.792Z INFO [worker-3] done path=/v1/items/42 status=200 took=12.5ms\n', size);
const base64 = Buffer.from(fill('\x03\x7f\xa9 picture \xfe\x10', (size / 4) * 3), 'latin1').toString('base64');

show(
  'copying (floor)',
  rate(
    size,
    best(() => Buffer.from(code, 'latin1')),
  ),
);
for (const [name, text] of Object.entries({ 'source code': code, 'a log': log, base64 }))
  show(
    `clean text, ${name}`,
    rate(
      text.length,
      best(() => redactText(text)),
    ),
  );
const chunks = Array.from({ length: size / 65_536 }, (_, i) =>
  Buffer.from(code.slice(i * 65_536, (i + 1) * 65_536), 'latin1'),
);
const streamed = best(() => {
  const stream = new RedactingStream();
  for (const chunk of chunks) stream.push(chunk);
  stream.end();
});
show('streamed in 64 KiB chunks', rate(size, streamed));

const result = {
  content: code.slice(0, 4096),
  lines: 80,
  size: 4096,
  encoding: 'utf-8',
  hash: `sha256:${'0a'.repeat(32)}`,
};
const times = small ? 2000 : 20_000;
const ms = best(() => {
  for (let i = 0; i < times; i++) redactValue(result);
});
show('results of 4 KiB', `${Math.round((times / ms) * 1000)}/s, ${((ms / times) * 1000).toFixed(1)} µs each`);

const lintTimes = small ? 20 : 200;
const lintFrom = performance.now();
for (let i = 0; i < lintTimes; i++)
  await lintSource({
    source: { content: result.content, filePath: 'result.txt', ext: '.txt', contentType: 'text' },
    options: { config: { rules: [{ id: 'preset', rule: creator }] }, noPhysicFilePath: true },
  });
show('4 KiB by secretlint (peer)', `${(((performance.now() - lintFrom) / lintTimes) * 1000).toFixed(1)} µs each`);

console.log('\n1 MiB of each, in ms:');
const hostile = [
  ...['a', 'eyJ', 'eyJ.', 'eyJhbGciOi.', '-----BEGIN', '-----BEGIN PRIVATE KEY-----', '-----BEGIN PRIVATE KEY-----\nA'],
  ...[
    'password=',
    'password="',
    'token: ',
    'token=a1',
    '://',
    '://a:',
    '://a:b@',
    'ghp_',
    'sk-',
    'sk-ant-',
    'xox',
    'AKIA',
  ],
  ...[
    'AccountKey=',
    'ops_ey',
    'hvs.',
    'SG.',
    'bearer ',
    'basic AAAAAAAA ',
    '"auth":"',
    '\\neyJ',
    '\x1b[1meyJ',
    'ghs_1_eyJ',
  ],
];
let worst = 0;
for (const part of hostile) {
  const text = fill(part, MiB);
  const took = best(() => redactText(text), 2);
  worst = Math.max(worst, took);
  show(JSON.stringify(part), took.toFixed(1));
}
show('worst hostile text, ms a MiB', worst.toFixed(1));
