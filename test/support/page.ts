/** Runs the commands of a page of the docs, in one shell, and compares what the page says they print. */
import { execFile } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished } from 'vitest';
import { processesWith, repository, temporaryDir, until } from './daemon.ts';

/** Each block of commands with the block of output behind it, if there is one. */
const stepsOf = (page: string) =>
  [...page.matchAll(/^```sh\n([\s\S]*?)^```\n(?:\n```text\n([\s\S]*?)^```)?/gm)].map(
    ([, commands = '', output = '']) => ({ commands, output }),
  );

/** A line of output as a page has it: `…` stands for anything, and spaces for any number of them. */
const toPattern = (line: string): RegExp =>
  new RegExp(
    line
      .split('…')
      .map((it) =>
        it
          .trim()
          .replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')
          .replaceAll(/ +/g, '\\s+'),
      )
      .join('.*'),
  );

/** Runs a page in a home of its own, which no process outlives. */
export async function runPage(name: string): Promise<void> {
  const steps = stepsOf(readFileSync(join(repository, `docs/${name}.md`), 'utf8'));
  const home = temporaryDir('home');
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
  const env = { PATH: `${repository}/bin:${repository}/node_modules/.bin:/usr/bin:/bin`, HOME: home };
  const script = steps.map(({ commands }, at) => `echo "== step ${at}"\n${commands}`).join('');
  const whole = `exec 2>&1\ntrap 'ringfence stop >/dev/null || true; kill $(jobs -p) 2>/dev/null || true' EXIT\n${script}`;
  const { stdout } = await promisify(execFile)('bash', ['-ec', whole], { cwd: home, env });
  const printed = stdout.split(/^== step \d+\n/m).slice(1);
  expect(printed.length).toBe(steps.length);
  for (const [at, { commands, output }] of steps.entries())
    for (const line of output.trimEnd().split('\n')) expect(printed[at], commands).toMatch(toPattern(line));
  await until(() => processesWith(home).length === 0);
}
