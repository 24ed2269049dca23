/** Judges a project's .npmrc: npm reads it when it installs, and it may name programs to run or other registries. */

/** Keys that change what npm prints or how it writes versions, and nothing that it runs or asks. */
const HARMLESS = new Set([
  'audit',
  'auto-install-peers',
  'color',
  'engine-strict',
  'fetch-retries',
  'fetch-timeout',
  'foreground-scripts',
  'fund',
  'ignore-scripts',
  'install-links',
  'install-strategy',
  'legacy-peer-deps',
  'lockfile-version',
  'loglevel',
  'maxsockets',
  'optional',
  'package-lock',
  'prefer-dedupe',
  'prefer-offline',
  'prefer-online',
  'progress',
  'save',
  'save-dev',
  'save-exact',
  'save-prefix',
  'strict-peer-deps',
  'unicode',
  'update-notifier',
]);

const KEY_CHARS = 128;

/** The keys that are not known to be harmless, as the file names them, in its order. Pure. */
export function riskyKeys(text: string, registry: string): string[] {
  const found = text.split(/\r\n|\r|\n/).flatMap((line): string[] => {
    const trimmed = line.trim();
    if (trimmed === '' || trimmed.startsWith('#') || trimmed.startsWith(';')) return [];
    const [, key = trimmed, value = ''] = /^([^=]*?)\s*(?:=\s*(.*))?$/.exec(trimmed) ?? [];
    const name = key.replace(/\[\]$/, '').trim();
    if (HARMLESS.has(name)) return [];
    const isSame = name === 'registry' && value.replace(/^["']|["']$/g, '').replace(/\/+$/, '') === registry;
    return isSame ? [] : [name.slice(0, KEY_CHARS)];
  });
  return [...new Set(found)];
}
