/** Attacks and faults meet the built-in policy: what holds under it must hold without a question about commands. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Files whose policy decides about commands by itself, and why. */
export const OWN_DECISIONS: Record<string, string> = {
  'test/attack/code-configs.test.ts': 'compares a session that may run commands with one that may not',
  'test/attack/git-config.test.ts': 'a repository runs no program where no command may run either',
  'test/attack/package-plans.test.ts': 'the attack lies between the question about an installation and its answer',
  'test/fault/floods.test.ts': 'the daemon judges many long lines, and runs none',
  'test/fault/killed-calls.test.ts': 'the daemon is killed while a command waits for its answer',
  'test/fault/long-lines.test.ts': 'the daemon judges long lines and shows them in questions, and runs none',
};

const DECIDES =
  /\b(?:execute|write): *(?:\{[^\n]*|(?:\n|\\n) *)\b(?:decision|approve):|\bextends: (?:careful|unattended)\b/;

/** The attacks and faults whose policy decides about the tier `execute` or `write`. */
export const findOwnDecisions = (root: string): string[] =>
  globSync('test/{attack,fault}/**/*.ts', { cwd: root })
    .filter((it) => DECIDES.test(readFileSync(join(root, it), 'utf8')))
    .sort();
