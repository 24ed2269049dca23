import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { lintSource } from '@secretlint/core';
import { creator } from '@secretlint/secretlint-rule-preset-recommend';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { RedactingStream, redactText, redactValue } from '../../src/base/redact.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

// Secrets are generated, since scanners would find literal ones in this repository.

const UPPER = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';
const LETTERS = UPPER + UPPER.toLowerCase();
const ALNUM = `${LETTERS}0123456789`;
const HEX = '0123456789abcdef';
const BASE64 = `${ALNUM}+/`;

type Pick = (length: number, chars?: string) => string;

/** A generator of random-looking characters, deterministic by seed. */
function picker(seed: number): Pick {
  let state = (seed % 2 ** 31) + 1;
  const next = (below: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  // Adjacent seeds give similar first numbers.
  for (let i = 0; i < 8; i++) next(1);
  return (length, chars = ALNUM) => Array.from({ length }, () => chars[next(chars.length)]).join('');
}

/** `text` marks the part to hide with ¦ on both sides. */
interface Sample {
  readonly kind: string;
  readonly text: (pick: Pick) => string;
  /** Name of a file in which secretlint finds it; absent if secretlint does not know such secrets. */
  readonly lint?: string;
}

const base64 = (text: string) => Buffer.from(text).toString('base64');
const jwt = (pick: Pick) =>
  [JSON.stringify({ alg: 'HS256', typ: 'JWT' }), JSON.stringify({ sub: pick(12) }), pick(32)]
    .map((it) => Buffer.from(it).toString('base64url'))
    .join('.');
const lines = (text: string, end: string) => text.replaceAll(/.{64}/g, (it) => it + end);
const block = (label: string, body: string, end = '\n') =>
  `-----BEGIN ${label}-----${end}${body}${end}-----END ${label}-----`;
const rsa = (pick: Pick, end?: string) => block('RSA PRIVATE KEY', lines(`MII${pick(797, BASE64)}`, end ?? '\n'), end);
/** Text with scattered digits, which no name has. */
const mixed = (pick: Pick, length: number) => `1a2${pick(length - 3)}`;

const SAMPLES: Record<string, Sample> = {
  'an AWS key id': { kind: 'aws-access-key-id', text: (pick) => `¦AKIA${pick(16, `${UPPER}234567`)}¦` },
  'an AWS secret': {
    kind: 'access-key',
    lint: 'a.ini',
    text: (pick) => `aws_secret_access_key = ¦${pick(40, BASE64)}¦`,
  },
  'an AWS secret in JSON': {
    kind: 'access-key',
    lint: 'a.ts',
    text: (pick) => `{"SecretAccessKey": "¦${pick(40, BASE64)}¦"}`,
  },
  ...Object.fromEntries(
    ['ghp', 'gho', 'ghu', 'ghs', 'ghr'].map((it) => [
      `GitHub ${it}`,
      { kind: 'github-token', lint: 'a.ts', text: (pick: Pick) => `token ¦${it}_${pick(36)}¦` },
    ]),
  ),
  'a fine-grained GitHub token': {
    kind: 'github-token',
    lint: 'a.ts',
    text: (pick) => `¦github_pat_${pick(22)}_${pick(59)}¦`,
  },
  'a GitHub app token': { kind: 'github-token', lint: 'a.ts', text: (pick) => `¦ghs_123456_${jwt(pick)}¦` },
  'a GitLab token': { kind: 'gitlab-token', lint: 'a.ts', text: (pick) => `¦glpat-${pick(20)}¦` },
  'an npm token': { kind: 'npm-token', lint: 'a.ts', text: (pick) => `¦npm_${pick(36)}¦` },
  'an npmrc': {
    kind: 'token',
    lint: '.npmrc',
    text: (pick) => `//registry.npmjs.org/:_authToken=¦${mixed(pick, 36)}¦`,
  },
  'a token as user of a URL': {
    kind: 'url-password',
    lint: 'package.json',
    text: (pick) => `https://¦${mixed(pick, 40)}¦:x-oauth-basic@github.com/a/b.git`,
  },
  'a Slack token': { kind: 'slack-token', lint: 'a.ts', text: (pick) => `¦xoxb-${pick(12, '123456789')}-${pick(24)}¦` },
  'a Slack app token': { kind: 'slack-token', lint: 'a.ts', text: (pick) => `¦xapp-1-A${pick(10)}-${pick(12, HEX)}¦` },
  'a Slack webhook': {
    kind: 'slack-webhook',
    lint: 'a.ts',
    text: (pick) => `https://¦hooks.slack.com/services/T${pick(8)}/B${pick(8)}/${pick(24)}¦`,
  },
  'a Stripe key': { kind: 'stripe-key', lint: 'a.ts', text: (pick) => `¦sk_live_${pick(24)}¦` },
  'a restricted Stripe key': { kind: 'stripe-key', lint: 'a.ts', text: (pick) => `¦rk_live_${pick(99)}¦` },
  'an OpenAI key': { kind: 'openai-key', lint: 'a.ts', text: (pick) => `¦sk-${pick(20)}T3BlbkFJ${pick(20)}¦` },
  'an OpenAI project key': {
    kind: 'openai-key',
    lint: 'a.ts',
    text: (pick) => `¦sk-proj-${pick(74)}T3BlbkFJ${pick(74)}¦`,
  },
  'an Anthropic key': {
    kind: 'anthropic-key',
    lint: 'a.ts',
    text: (pick) => `¦sk-ant-api03-${pick(93, `${ALNUM}_-`)}AA¦`,
  },
  'a Groq key': { kind: 'groq-key', lint: 'a.ts', text: (pick) => `¦gsk_${pick(52)}¦` },
  'a Google key': { kind: 'google-key', text: (pick) => `?key=¦AIza${pick(35)}¦` },
  'a SendGrid key': { kind: 'sendgrid-key', lint: 'a.ts', text: (pick) => `¦SG.${pick(22)}.${pick(43)}¦` },
  'a Twilio key': { kind: 'twilio-key', text: (pick) => `¦SK${pick(32, HEX)}¦` },
  'a Shopify token': { kind: 'shopify-token', lint: 'a.ts', text: (pick) => `¦shpat_${pick(32)}¦` },
  'a 1Password token': {
    kind: 'onepassword-token',
    lint: 'a.ts',
    text: (pick) => `¦ops_${base64(JSON.stringify({ email: pick(30), secretKey: pick(81), muk: { k: '1' } }))}¦`,
  },
  'a Linear key': { kind: 'linear-key', lint: 'a.ts', text: (pick) => `¦lin_api_${pick(40)}¦` },
  'a Notion token': { kind: 'notion-token', lint: 'a.ts', text: (pick) => `¦ntn_${pick(11, '123456789')}${pick(35)}¦` },
  'a Databricks token': { kind: 'databricks-token', lint: 'a.ts', text: (pick) => `¦dapi${pick(32, HEX)}-2¦` },
  'a Hugging Face token': { kind: 'huggingface-token', lint: 'a.ts', text: (pick) => `¦hf_${pick(34, LETTERS)}¦` },
  'a Docker token': { kind: 'docker-token', lint: 'a.ts', text: (pick) => `¦dckr_pat_${pick(27)}¦` },
  'a Figma token': { kind: 'figma-token', lint: 'a.ts', text: (pick) => `¦figd_${pick(40)}¦` },
  'a Cloudflare token': { kind: 'cloudflare-token', lint: 'a.ts', text: (pick) => `¦cfut_${pick(40)}${pick(8, HEX)}¦` },
  'a Tailscale key': { kind: 'tailscale-key', lint: 'a.ts', text: (pick) => `¦tskey-auth-${pick(12)}-${pick(32)}¦` },
  'a Grafana token': { kind: 'grafana-token', lint: 'a.ts', text: (pick) => `¦glsa_${pick(32)}_${pick(8, HEX)}¦` },
  'a Grafana cloud token': { kind: 'grafana-token', lint: 'a.ts', text: (pick) => `¦glc_${pick(120, BASE64)}==¦` },
  'a Vault token': { kind: 'vault-token', lint: 'a.ts', text: (pick) => `¦hvs.${pick(95)}¦` },
  'a Vault batch token': { kind: 'vault-token', lint: 'a.ts', text: (pick) => `¦hvb.${pick(240)}¦` },
  'a Vercel token': { kind: 'vercel-token', lint: 'a.ts', text: (pick) => `¦vcp_${pick(24)}¦` },
  'an Azure storage key': { kind: 'azure-key', text: (pick) => `AccountName=a;¦AccountKey=${pick(86, BASE64)}==¦;` },
  'a JWT': { kind: 'jwt', text: (pick) => `¦${jwt(pick)}¦` },
  'an RSA key': { kind: 'private-key', lint: 'a.pem', text: (pick) => `¦${rsa(pick)}¦` },
  'an OpenSSH key': {
    kind: 'private-key',
    lint: 'a.pem',
    text: (pick) => `¦${block('OPENSSH PRIVATE KEY', lines(`b3BlbnNzaC1rZXktdjEA${pick(500, BASE64)}`, '\n'))}¦`,
  },
  'a PGP key': {
    kind: 'private-key',
    text: (pick) =>
      `¦${block('PGP PRIVATE KEY BLOCK', `Version: GnuPG v2 (Linux)\n\n${lines(pick(600, BASE64), '\n')}`)}¦`,
  },
  'an encrypted key': {
    kind: 'private-key',
    text: (pick) =>
      `¦${block('EC PRIVATE KEY', `Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,${pick(32, HEX)}\n\n${lines(pick(160, BASE64), '\n')}`)}¦`,
  },
  'a service account of Google': {
    kind: 'private-key',
    lint: 'a.json',
    text: (pick) =>
      `{"type":"service_account","private_key_id":"${pick(40, HEX)}","private_key":"¦${rsa(pick, '\\n')}¦\\n"}`,
  },
  'a key in numbered lines': {
    kind: 'private-key',
    text: (pick) => `¦${rsa(pick).replaceAll('\n', '\n    12\t')}¦`,
  },
  'a password in a URL': {
    kind: 'url-password',
    lint: 'a.ts',
    text: (pick) => `https://bob:¦${pick(12)}¦@git.acme.io/x`,
  },
  'a database URL': {
    kind: 'url-password',
    lint: 'a.ts',
    text: (pick) => `postgres://app:¦${pick(6)}@${pick(5)}!¦@db.acme.io/x`,
  },
  'a password of MongoDB': {
    kind: 'url-password',
    lint: 'a.ts',
    text: (pick) => `mongodb+srv://app:¦${pick(9)}¦@c0.acme.io/x`,
  },
  'a password': { kind: 'password', text: (pick) => `password=¦${mixed(pick, 8)}¦` },
  'a password that is words': { kind: 'password', text: (pick) => `PASSWORD=¦correct${pick(5, 'abcdefgh')}horse¦` },
  'a passwd of YAML': { kind: 'password', text: (pick) => `  passwd: ¦${mixed(pick, 9)}¦` },
  'a password in JSON': { kind: 'password', text: (pick) => `{"dbPassword": "¦p.${mixed(pick, 9)},{]¦"}` },
  'a password in escaped JSON': { kind: 'password', text: (pick) => `"{\\"password\\":\\"¦${mixed(pick, 9)}¦\\"}"` },
  'an API key': { kind: 'api-key', text: (pick) => `const api_key = "¦${mixed(pick, 24)}¦";` },
  'a secret of the environment': { kind: 'secret', text: (pick) => `export CLIENT_SECRET=¦${mixed(pick, 24)}¦` },
  'a token that is a UUID': {
    kind: 'token',
    text: (pick) => `access_token: '¦${[8, 4, 4, 4, 12].map((it) => pick(it, HEX)).join('-')}¦'`,
  },
  'a bearer token': { kind: 'bearer-token', text: (pick) => `Authorization: Bearer ¦${mixed(pick, 20)}¦` },
  'a JWT of a header': { kind: 'jwt', text: (pick) => `curl -H "authorization: bearer ¦${jwt(pick)}¦"` },
  'basic authorization': { kind: 'basic-auth', text: (pick) => `Authorization: Basic ¦${base64(`bob:${pick(12)}`)}¦` },
  'a Docker login': { kind: 'basic-auth', text: (pick) => `{"auth": "¦${base64(`bob:${pick(12)}`)}¦"}` },
  'a token known by its form, assigned': { kind: 'github-token', text: (pick) => `GITHUB_TOKEN="¦ghp_${pick(36)}¦"` },
};
const all = Object.entries(SAMPLES);

function make({ text }: Sample, seed: number) {
  const [before = '', secret = '', after = ''] = text(picker(seed)).split('¦');
  return { text: before + secret + after, before, secret, after };
}

describe('redactText', () => {
  test.each(all)('hides %s and nothing beside it, and says its kind', (_, sample) => {
    for (let seed = 0; seed < 20; seed++) {
      const { text, before, after } = make(sample, seed);
      const redacted = `${before}[redacted:${sample.kind}]${after}`;
      expect(redactText(text)).toBe(redacted);
      expect(redactText(`${text}\n`)).toBe(`${redacted}\n`);
      expect(redactText(redacted)).toBe(redacted);
    }
  });

  test.each(all.filter(([, it]) => it.lint))('leaves secretlint nothing to find of %s', async (_, sample) => {
    const lint = async (content: string) => {
      const filePath = `/nowhere/${sample.lint}`;
      const ext = /\.\w+$/.exec(filePath)?.[0] ?? '';
      const { messages } = await lintSource({
        source: { content, filePath, ext, contentType: 'text' },
        options: { config: { rules: [{ id: 'preset', rule: creator }] }, noPhysicFilePath: true },
      });
      return messages.map(({ range: [from, to] }) => content.slice(from, to)).filter((it) => !it.includes('[reda'));
    };
    for (let seed = 0; seed < 5; seed++) {
      const { text } = make(sample, seed);
      expect(await lint(text)).not.toEqual([]);
      expect(await lint(redactText(text))).toEqual([]);
    }
  });

  test('finds secrets behind escapes, colours and percent signs', () => {
    const key = `sk-${picker(1)(48)}`;
    for (const before of ['\\n', '\x1b[1;31m', '%3D', '\\u0022', '"', '(', 'é'])
      expect(redactText(`${before}${key}`)).toBe(`${before}[redacted:openai-key]`);
  });

  test('hides a key block that is cut off, as far as it goes', () => {
    const cut = rsa(picker(1)).slice(0, 400);
    expect(redactText(`a\n${cut}`)).toBe('a\n[redacted:private-key]');
    expect(redactText(`a\n${cut}\n<b>`)).toBe('a\n[redacted:private-key]<b>');
  });

  test('leaves what only looks like it', () => {
    const pick = picker(1);
    const harmless = [
      pick(40, HEX),
      `commit ${pick(40, HEX)}\nAuthor: Bob <bob@acme.io>`,
      crypto.randomUUID(),
      `"integrity": "sha512-${pick(86, BASE64)}=="`,
      `data:image/png;base64,${pick(4000, BASE64)}`,
      `password: <your-password>, token=\${TOKEN}, secret: process.env.CLIENT_SECRET1, api_key = "xxxxxxxxxxxx"`,
      'password=changeme\nPASSWORD="$DB_PASSWORD"\npassword: {{ vault.password }}\npassword = getpass.getpass1()',
      'const password = await readPassword2(input); let token = tokens[index12]; if (token === undefined) return;',
      'interface A { password: Uint8Array; token: Promise<string>; secret: base64url }',
      '<input type="password" name="password" autocomplete="current-password" placeholder="Password12">',
      'errors: { password: "required", token: "utf8-string" }, "password": "Passwort", password: "auth.password.label"',
      'max_tokens: 1000000, "token_count": 12345678, tokenizer="cl100k_base", js-tokens@4.0.0',
      'http://localhost:8080?to=bob@acme.io https://user:password@host git@github.com:a/b.git ssh://git@acme.io:22/a',
      `https://\${USER}:\${PASSWORD}@acme.io mongodb://$USER:$PASS@db/x http://a:80,b:81`,
      '.sk-folding-cube .sk-fading-circle-before-1 risk-assessment-2024-overview-final hf_transfer ghp_<token>',
      'AKIAIOSFODNN7EXAMPLE wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY npm_config_user_agent_and_other_variables_too',
      "text.includes('-----BEGIN PRIVATE KEY-----') || text.includes('-----BEGIN RSA PRIVATE KEY-----')",
      `-----BEGIN CERTIFICATE-----\n${lines(pick(400, BASE64), '\n')}\n-----END CERTIFICATE-----`,
      'Basic information about bearer authentication-and-authorization, a secret: nobody knows.',
      `eyJ${pick(200)} cursor=eyJ${pick(40)}.json`,
    ];
    for (const text of harmless) expect(redactText(text)).toBe(text);
  });

  test("leaves this repository's own files as they are", () => {
    const files = ['src', 'workers', 'docs', 'script', 'bench'].flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((it) => join(folder, it)),
    );
    for (const file of [...files.filter((it) => /\.(ts|md|json)$/.test(it)), 'package-lock.json', 'README.md']) {
      const text = readFileSync(join(root, file), 'utf8');
      if (redactText(text) !== text) expect.fail(`${file} was changed`);
    }
  });

  test('leaves any text without secrets as it is', () => {
    const text = fc.oneof(fc.string({ unit: 'binary', maxLength: 200 }), fc.lorem(), fc.webUrl(), fc.uuid(), fc.json());
    fc.assert(fc.property(fc.array(text), (it) => redactText(it.join('\n')) === it.join('\n')));
  });

  test('never lets a secret through, wherever it stands', () => {
    const any = fc.string({ unit: 'binary' });
    const place = fc.record({
      before: any,
      after: any,
      sample: fc.constantFrom(...Object.values(SAMPLES)),
      seed: fc.nat(),
      left: fc.constantFrom('', ' ', '\n', '"', '(', ',', '\t', '>'),
      right: fc.constantFrom(' ', '\n', '"', '\r\n', '&'),
    });
    fc.assert(
      fc.property(place, ({ before, left, sample, seed, right, after }) => {
        const { text, secret } = make(sample, seed);
        return !redactText(`${left && before + left}${text}${right}${after}`).includes(secret);
      }),
      { numRuns: 1000 },
    );
  });

  test.each([
    'a',
    'eyJ',
    'eyJ.',
    '-----BEGIN',
    '-----BEGIN PRIVATE KEY-----\n',
    'password=',
    'password="',
    '://a:',
    'sk-',
    'SG.',
    'ghp_',
  ])('takes time in proportion to a text of %j', (part) => {
    const from = performance.now();
    redactText(part.repeat(2 ** 20 / part.length));
    // Some 50 ms on an idle machine; a quadratic pattern would take minutes.
    expect(performance.now() - from).toBeLessThan(2000);
  });
});

function streamed(chunks: readonly Uint8Array[]): string {
  const stream = new RedactingStream();
  return Buffer.concat([...chunks.map((it) => stream.push(it)), stream.end()]).toString('latin1');
}

describe('RedactingStream', () => {
  test.each(all)('gives the same as redactText for %s, wherever it is cut', (_, sample) => {
    const { text } = make(sample, 7);
    const whole = `it is ${text}\nand more; token\n`;
    const bytes = Buffer.from(whole, 'latin1');
    const wanted = redactText(whole);
    for (let at = 0; at <= bytes.length; at++)
      expect(streamed([bytes.subarray(0, at), bytes.subarray(at)]), `cut at ${at}`).toBe(wanted);
    expect(streamed(Array.from(bytes, (it) => Uint8Array.of(it)))).toBe(wanted);
  });

  test('gives the same as redactText for any text and any cuts', () => {
    const part = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.tuple(fc.constantFrom(...Object.values(SAMPLES)), fc.nat()).map(([it, seed]) => make(it, seed).text),
      fc.constantFrom('ghp_', 'password="', '-----BEGIN PRIVATE KEY-----', 'eyJ', '://', 'bearer ', '\n', 'sk-ant-'),
    );
    fc.assert(
      fc.property(
        fc.array(part, { maxLength: 6 }),
        fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1 }),
        (parts, sizes) => {
          const bytes = Buffer.from(parts.join(''));
          const chunks: Uint8Array[] = [];
          for (let at = 0, i = 0; at < bytes.length; at += sizes[i++ % sizes.length] as number)
            chunks.push(bytes.subarray(at, at + (sizes[i % sizes.length] as number)));
          expect(streamed(chunks)).toBe(redactText(bytes.toString('latin1')));
        },
      ),
      { numRuns: 300 },
    );
  });

  test('gives the same for UTF-8 bytes as redactText for the string', () => {
    const text = fc.tuple(
      fc.string({ unit: 'grapheme' }),
      fc.constantFrom(...Object.values(SAMPLES)),
      fc.nat(),
      fc.string({ unit: 'grapheme' }),
    );
    fc.assert(
      fc.property(text, ([before, sample, seed, after]) => {
        const whole = `${before} ${make(sample, seed).text} ${after}`;
        expect(Buffer.from(streamed([Buffer.from(whole)]), 'latin1').toString()).toBe(redactText(whole));
      }),
    );
  });

  test('passes bytes that are no secrets as they are, and a whole chunk without copying it', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array()), (chunks) => {
        expect(streamed(chunks)).toBe(Buffer.concat(chunks).toString('latin1'));
      }),
    );
    const chunk = Buffer.from('a line\nand another\n');
    expect(new RedactingStream().push(chunk)).toBe(chunk);
  });

  test.each([
    ['a JWT', (pick: Pick) => `${jwt(pick).slice(0, 60)}.${pick(200_000)}`, 'jwt'],
    ['a key block', (pick: Pick) => block('PRIVATE KEY', lines(pick(200_000, BASE64), '\n')), 'private-key'],
    ['a password', (pick: Pick) => `password=${mixed(pick, 200_000)}`, 'password'],
    ['a line without an end', (pick: Pick) => pick(200_000, HEX), undefined],
  ])('holds back no more than 4 KiB of %s of 200 kB', (_, make, kind) => {
    const bytes = Buffer.from(`${make(picker(3))}\nend`);
    const stream = new RedactingStream();
    let given = '';
    for (let at = 0; at < bytes.length; at += 1000) {
      given += Buffer.from(stream.push(bytes.subarray(at, at + 1000))).toString();
      expect(stream.pending).toBeLessThanOrEqual(4096);
    }
    given += Buffer.from(stream.end()).toString();
    if (kind) expect(given).toMatch(new RegExp(`^(password=)?\\[redacted:${kind}\\]\nend$`));
    else expect(given).toBe(bytes.toString());
  });

  test('holds back nothing of a line that has ended', () => {
    const stream = new RedactingStream();
    for (const line of ['password: \n', 'see https://acme.io\n', 'AKIA\n', 'a token\n', 'eyJhbGciOi\n', 'Basic\n']) {
      expect(Buffer.from(stream.push(Buffer.from(line))).toString()).toBe(line);
      expect(stream.pending).toBe(0);
    }
  });

  test('flush shows a prompt and no half token, and what follows is hidden all the same', () => {
    const stream = new RedactingStream();
    const push = (text: string) => Buffer.from(stream.push(Buffer.from(text))).toString();
    const flush = () => Buffer.from(stream.flush()).toString();
    const token = `ghp_${picker(1)(36)}`;

    expect([push('Password: '), stream.pending, flush(), stream.pending]).toEqual(['', 10, 'Password: ', 0]);
    expect(push('hunter22\n')).toBe('[redacted:password]\n');
    expect([push(token.slice(0, 20)), flush(), stream.pending]).toEqual(['', '', 20]);
    expect(push(`${token.slice(20)}\n`)).toBe('[redacted:github-token]\n');
    expect([push('so gh'), flush(), push('ost\n')]).toEqual(['so ', 'gh', 'ost\n']);
  });
});

describe('redactValue', () => {
  const token = `ghp_${picker(1)(36)}`;

  test('copies only what holds a secret', () => {
    const clean = { list: ['a', { b: 1 }], at: new Date(0), bytes: Buffer.from('x'), nothing: null };
    expect(redactValue(clean)).toBe(clean);
    const value = { clean, dirty: [{ text: `a ${token}` }, 'b'], n: 1 };
    const redacted = redactValue(value) as typeof value;
    expect(redacted).toEqual({ ...value, dirty: [{ text: 'a [redacted:github-token]' }, 'b'] });
    expect(redacted.clean).toBe(clean);
    expect(value.dirty[0]).toEqual({ text: `a ${token}` });
  });

  test('reads bytes as text', () => {
    const bytes = Uint8Array.from([255, 0, ...Buffer.from(token), 254]);
    expect(redactValue(bytes)).toEqual(
      Buffer.concat([Buffer.from([255, 0]), Buffer.from('[redacted:github-token]'), Buffer.from([254])]),
    );
  });

  test('keeps a member called __proto__ a member', () => {
    const redacted = redactValue(JSON.parse(`{"__proto__": "${token}"}`)) as object;
    expect(Object.entries(redacted)).toEqual([['__proto__', '[redacted:github-token]']]);
  });

  test('hides what stands under the name of a secret only when asked to', () => {
    const value = {
      env: { DB_PASSWORD: 'a', 'api-key': 'b', TZ: 'UTC' },
      headers: { Cookie: ['c', 'd'] },
      tokens: 3,
      token: null,
      password: '',
    };
    expect(redactValue(value)).toBe(value);
    expect(redactValue(value, { byKey: true })).toEqual({
      env: { DB_PASSWORD: '[redacted]', 'api-key': '[redacted]', TZ: 'UTC' },
      headers: { Cookie: ['[redacted]', '[redacted]'] },
      tokens: 3,
      token: null,
      password: '',
    });
  });

  test('tells of each secret that it hides', () => {
    const kinds: string[] = [];
    redactValue([token, { password: 'a' }, `${token} ${token}`], { byKey: true, onSecret: (kind) => kinds.push(kind) });
    expect(kinds).toEqual(['github-token', 'key', 'github-token', 'github-token']);
  });
});
