import { readFileSync } from 'node:fs';
import { lintSource } from '@secretlint/core';
import { creator } from '@secretlint/secretlint-rule-preset-recommend';
import { RedactingStream, redactText, redactValue } from '../../src/base/redact.ts';
import { defineBench } from '../bench.ts';
import { inTurns, median } from '../measure.ts';

const MiB = 1024 * 1024;
const CHUNK = 65_536;
const fill = (part: string, bytes: number) => part.repeat(Math.ceil(bytes / part.length)).slice(0, bytes);

/** Prefixes of secrets that never become one. */
const HOSTILE = [
  ...['a', 'eyJ', 'eyJ.', 'eyJhbGciOi.', '-----BEGIN', '-----BEGIN PRIVATE KEY-----', '-----BEGIN PRIVATE KEY-----\nA'],
  ...['password=', 'password="', 'token: ', 'token=a1', '://', '://a:', '://a:b@', 'ghp_', 'sk-', 'sk-ant-', 'xox'],
  ...['AKIA', 'AccountKey=', 'ops_ey', 'hvs.', 'SG.', 'bearer ', 'basic AAAAAAAA ', '"auth":"', '\\neyJ', '\x1b[1meyJ'],
  'ghs_1_eyJ',
];

function streamed(text: string): () => void {
  const chunks = Array.from({ length: text.length / CHUNK }, (_, i) =>
    Buffer.from(text.slice(i * CHUNK, (i + 1) * CHUNK), 'latin1'),
  );
  return () => {
    const stream = new RedactingStream();
    for (const chunk of chunks) stream.push(chunk);
    stream.end();
  };
}

export default defineBench({
  title: 'Redaction',
  question: 'What does looking for secrets cost, also in a hostile result?',
  async run(bench) {
    const size = bench.size(MiB / 8, 8 * MiB);
    const sources = ['../../package-lock.json', '../../src/base/limits.ts', '../../test/tidy.test.ts']
      .map((it) => readFileSync(new URL(it, import.meta.url), 'utf8'))
      .join('\n');
    const code = Buffer.from(fill(sources, size)).toString('latin1').slice(0, size);
    const log = fill('2026-11-21T12:18:58.792Z INFO [worker-3] done path=/v1/items/42 status=200 took=12.5ms\n', size);
    const base64 = Buffer.from(fill('\x03\x7f\xa9 picture \xfe\x10', (size / 4) * 3), 'latin1').toString('base64');
    const texts = await inTurns(
      {
        'copying the text': () => Buffer.from(code, 'latin1'),
        'source code': () => redactText(code),
        'a log': () => redactText(log),
        base64: () => redactText(base64),
        'source code, streamed in 64 KiB chunks': streamed(code),
      },
      { rounds: bench.size(2, 7), times: 1 },
    );
    bench.rates(texts, { amount: size / 1e6, unit: 'MB/s', over: 'copying the text' });

    const result = { content: code.slice(0, 4096), lines: 80, size: 4096, encoding: 'utf-8', hash: 'sha256:0a0a' };
    const source = { content: result.content, filePath: 'result.txt', ext: '.txt', contentType: 'text' } as const;
    const options = { config: { rules: [{ id: 'preset', rule: creator }] }, noPhysicFilePath: true };
    bench.times(
      await inTurns(
        {
          '4 KiB by secretlint': () => lintSource({ source, options }),
          'a result of 4 KiB': () => redactValue(result),
        },
        { rounds: bench.size(3, 10), times: bench.size(10, 100) },
      ),
      { over: '4 KiB by secretlint' },
    );

    const bytes = bench.size(MiB / 8, MiB);
    const subjects = Object.fromEntries(
      HOSTILE.map((part) => [JSON.stringify(part), fill(part, bytes)]).map(([name = '', text = '']) => [
        name,
        () => redactText(text),
      ]),
    );
    const hostile = await inTurns(subjects, { rounds: bench.size(1, 3), times: 1, warmRounds: bench.size(0, 1) });
    const worst = Object.entries(hostile)
      .map(([name, taken]) => ({ name, ms: median(taken.flat()) }))
      .reduce((a, b) => (b.ms > a.ms ? b : a));
    bench.value(`the worst hostile text (${worst.name}), a MiB`, (worst.ms / bytes) * MiB, 'ms');
  },
});
