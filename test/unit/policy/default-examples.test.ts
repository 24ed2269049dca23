/** Further examples for rules of policies/default.yaml, which itself has only those that explain a rule. */
import { expect, test } from 'vitest';
import { defaultPolicy } from '../../../src/policy/load.ts';
import { ruleMatches } from '../../../src/policy/match.ts';
import { toQuestion } from '../../../src/policy/rule-examples.ts';
import type { Rule } from '../../../src/policy/schema.ts';
import { effectsOfBuiltin as effectsOf } from '../../../src/tools/registry.ts';

/** A rule, calls that it matches, and calls that it does not match. */
const ROWS: [id: string, match: string[], noMatch: string[]][] = [
  [
    'no-secrets',
    [
      'file_read {"path": "server.pem"}',
      'file_read {"path": "server.key.bak"}',
      'file_read {"path": "prod.env"}',
      'file_read {"path": "deploy/prod.env.local"}',
      'file_read {"path": "keys/id_rsa.old"}',
      'file_read {"path": "keys/id_ed25519~"}',
      'file_read {"path": ".npmrc.bak"}',
      'file_read {"path": "config/client_secret.json"}',
      'file_write {"path": ".env", "content": ""}',
      'file_read {"path": "deploy/private-key.json"}',
      'file_read {"path": "app/PRIVATE_KEY"}',
      'file_read {"path": "secrets/production.yaml"}',
      'file_read {"path": "ops/Passwords/team.json"}',
      'file_read {"path": "deploy/private_keys/ci"}',
      'file_read {"path": ".secret/token"}',
      'file_read {"path": "password.ts.bak"}',
      'file_read {"path": "src/prod.env"}',
      'file_read {"path": ".npmrc"}',
    ],
    [
      'cat .env',
      'grep -A 1 x < .env',
      'file_edit {"path": "src/transport/same-secret.ts", "operations": [{"type": "delete", "startLine": 1, "endLine": 1}]}',
      'file_read {"path": "test/secrets.test.ts"}',
      'file_read {"path": "tests/test_password_reset.py"}',
      'file_read {"path": "src/secrets/index.ts"}',
      'file_read {"path": "packages/password-reset/package.json"}',
      'file_read {"path": "src/secrets-manager/settings.json"}',
      'file_read {"path": "src/password/en.json"}',
      'file_read {"path": "docs/private-keys.md"}',
      'mkdir -p tests/password-reset',
      'file_read {"path": "keys/id_rsa.pub"}',
      'file_read {"path": "deploy/prod.env.template"}',
      'file_read {"path": "src/main.ts"}',
      'file_read {"path": "node_modules/aws-sdk/lib/credentials.js"}',
      'file_read {"path": "venv/lib/python3.12/site-packages/certifi/cacert.pem"}',
    ],
  ],
  [
    'protected-files',
    ['file_write {"path": ".git/config", "content": ""}'],
    ['file_read {"path": ".git/config"}', 'file_write {"path": ".github/workflows/ci.yaml", "content": ""}'],
  ],
  [
    'program-settings',
    ['file_write {"path": "bare/HEAD", "content": ""}'],
    ['file_write {"path": "yarn.lock", "content": ""}'],
  ],
];

test.each(ROWS)('the rule %s matches what it should, and nothing else', (id, match, noMatch) => {
  const rule = defaultPolicy.rules.find((it) => it.id === id) as Rule;
  const outcomes = (texts: readonly string[]) => texts.map((it) => [it, ruleMatches(rule, toQuestion(it, effectsOf))]);
  expect(outcomes(match)).toEqual(match.map((it) => [it, true]));
  expect(outcomes(noMatch)).toEqual(noMatch.map((it) => [it, false]));
});
