/** The error of a denied line names what the rule denies, wherever it stands in the line. */
import { expect, test } from 'vitest';
import { refusalOf } from '../../../src/pipeline/refusal.ts';
import { decide } from '../../../src/policy/decide.ts';
import { lineOf, policyOf, ruleOf } from '../../support/policy.ts';

const policy = policyOf([
  ruleOf('deny', { command: ['mkfs'] }),
  ruleOf('deny', { path: ['.env', 'out/**', '/dev/sda'] }),
]);

test.each<[string, ReturnType<typeof lineOf>, string]>([
  ['a command', lineOf(['pwd', 'mkfs disk']), 'mkfs disk'],
  [
    'a command, and a path that it names',
    lineOf(['pwd', 'mkfs /dev/sda'], { mentions: ['/dev/sda'] }),
    'mkfs /dev/sda',
  ],
  ['a path', lineOf(['echo start', 'cat .env'], { mentions: ['.env'] }), '.env'],
  [
    'the target of a redirection',
    lineOf(['pwd', 'echo x'], { redirects: [{ kind: 'write', target: 'out/a' }], mentions: ['b'] }),
    'out/a',
  ],
])('a refused line names %s', (_, line, named) => {
  const question = { ...line, effects: [] };
  const { message } = refusalOf(policy, decide(policy, question), question);
  expect(message).toContain(`\`terminal_execute\` on \`${named}\``);
});
