import { describe, expect, test } from 'vitest';
import { providersSchema, type SettingsContext, toProviderSettings } from '../../../src/services/providers/settings.ts';

const context: SettingsContext = {
  env: { TOKEN: 'secret' },
  toShownFolder: (path) => path,
  toWorkspace: (path) => path,
  toPath: (path) => `/config/${path}`,
};
const read = (provider: object) => toProviderSettings(providersSchema.parse({ fix: provider }) as never, context)[0];

describe('what is configured of a provider', () => {
  test('a provider is of the strictest tier unless its settings name another', () => {
    expect(read({ command: ['server'] })).toMatchObject({ tier: 'external_api', protocol: 'legacy', network: [] });
  });

  test('finds secrets in files and variables', () => {
    const headers = { A: { env: 'TOKEN', prefix: 'Bearer ' }, B: { file: 'token' }, C: 'plain' };
    expect(read({ url: 'https://example.org/mcp', headers })).toMatchObject({
      headers: {
        A: { text: 'Bearer secret', secret: 'secret' },
        B: { file: '/config/token', prefix: '' },
        C: { text: 'plain' },
      },
    });
  });

  test.each([
    ['a key that there is not', { command: ['a'], comand: ['b'] }, 'comand'],
    ['neither a command nor a URL', { tier: 'write' }, 'fix'],
    ['both of them', { command: ['a'], url: 'https://example.org' }, 'fix'],
    ['a workspace for what sees none', { command: ['a'], workspace: '/ws' }, 'tier external_api sees no workspace'],
    [
      'another tier for a server elsewhere',
      { url: 'https://example.org', tier: 'read_only' },
      'external_api, not read_only',
    ],
    ['credentials in a URL', { url: 'https://me:pass@example.org' }, 'credentials belong in'],
    ['a URL of another protocol', { url: 'file:///etc/passwd' }, 'fix'],
    ['a variable that is not there', { command: ['a'], env: { A: { env: 'NONE' } } }, 'has no NONE'],
    ['a value that is found nowhere', { command: ['a'], env: { A: {} } }, 'exactly one of `file` and `env`'],
    ['a place that is none', { command: ['a'], network: ['http://a/b'] }, 'http://a/b'],
  ])('a provider is refused with %s', (_, provider, words) => {
    expect(() => read(provider)).toThrow(words);
  });

  test.each(['a__b', 'A', '_a', 'a_', 'x'.repeat(25)])('a provider is refused with the name %s', (name) => {
    expect(() => providersSchema.parse({ [name]: { command: ['a'] } })).toThrow(name);
  });
});
