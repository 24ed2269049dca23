/** A known secret is hidden at each exit in each spelling, and nothing else changes. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { KnownValues } from '../../../src/base/redact/known-values.ts';
import { withCredentials, withoutCredentials } from '../../../src/sandbox/egress/credentials.ts';
import { toHarmless } from '../../../src/services/providers/text.ts';
import { spellings } from '../../support/spellings.ts';

const SECRET = 'sk_live/9f+Q&x="7ü<zeta>';
const forms = Object.entries(spellings(SECRET));
/** No five characters of the secret stand anywhere, even after what a client decodes. */
const pieces = [...Array(SECRET.length - 4).keys()].map((at) => SECRET.slice(at, at + 5));
const leaks = (text: string) => pieces.filter((it) => text.includes(it));

const credential = { in: 'header', name: 'Authorization', value: `Bearer ${SECRET}`, secret: SECRET } as const;
const exits: Record<string, (text: string) => string> = {
  'the body of an answer': (text) => {
    const answer = { status: 200, headers: {}, body: Buffer.from(text), truncated: false, finalUrl: 'https://x/' };
    const shown = withoutCredentials(answer as never, [credential]) as { body: Uint8Array };
    return Buffer.from(shown.body).toString();
  },
  'a header of an answer': (text) =>
    JSON.stringify(
      withoutCredentials({ status: 200, headers: { a: text }, body: Buffer.alloc(0) } as never, [credential]),
    ),
  'the reason of a failure': (text) => JSON.stringify(withoutCredentials({ failed: text }, [credential])),
  'a text of a provider': (text) => JSON.stringify(toHarmless([SECRET], { a: text })),
  'a name in a provider’s answer': (text) => JSON.stringify(toHarmless([SECRET], { [text]: 1 })),
};

describe.each(Object.entries(exits))('%s', (_, exit) => {
  test.each(forms)('a secret spelled as %s is hidden at this exit', (_name, form) => {
    const shown = exit(`before ${form} behind`);
    expect(shown).toContain('[secret]');
    expect(shown).toMatch(/before .*behind/s);
    expect(leaks(shown)).toEqual([]);
  });
});

test.each(forms.filter(([name]) => name.startsWith('JSON')))(
  'a secret spelled as %s is gone once JSON is parsed',
  (_, form) => {
    const raw = `{"text":"${form}","${form}":1}`;
    const parsed = JSON.parse(new KnownValues([SECRET]).hide(raw)) as object;
    expect(leaks(JSON.stringify(Object.entries(parsed)))).toEqual([]);
  },
);

test('the beginning of a secret at the cut end of a body is cut as well', () => {
  for (let length = 1; length < SECRET.length; length++) {
    const cut = Buffer.from(`before ${JSON.stringify(SECRET).slice(1, length)}`);
    expect(new KnownValues([SECRET]).hideIn(cut, { isCut: true }).toString()).toBe('before ');
  }
});

test('a secret of a path goes to its own place, whatever parameters of the path say', () => {
  const path = { in: 'path', name: 'secret-0f3a', value: '$&/a b', secret: '$&/a b' } as const;
  const asked = { url: 'https://x.test/%7Bsecret%7D/bot-secret-0f3a/send', method: 'GET', headers: {} };
  const sent = withCredentials({ ...asked, bytesMax: 1, withinMs: 1, credentials: [path] });
  expect(sent.url).toBe('https://x.test/%7Bsecret%7D/bot-$&/a%20b/send');
});

test('a text without the secret stays as it is, byte for byte', () => {
  const known = new KnownValues([SECRET]);
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      expect(known.hideIn(Buffer.from(bytes))).toEqual(Buffer.from(bytes));
    }),
  );
});

test.each([
  ['backslashes', '\\'],
  ['escapes', '\\u0073'],
  ['entities', '&amp;'],
  ['percent signs', '%25'],
  ['beginnings of the secret', 'sk_live/'],
])('a megabyte of %s takes less than 3 s of processor time', (_, part) => {
  const bytes = Buffer.from(part.repeat(2 ** 20 / part.length));
  const { user, system } = process.cpuUsage();
  new KnownValues([SECRET]).hideIn(bytes, { isCut: true });
  const used = process.cpuUsage({ user, system });
  expect((used.user + used.system) / 1000).toBeLessThan(3000);
});
