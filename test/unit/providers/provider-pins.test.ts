import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { systemPowers } from '../../../src/base/powers.ts';
import { ProviderPins } from '../../../src/services/providers/provider-pins.ts';

test('an accepted answer is kept over a restart, whole or not at all', () => {
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-pins-'));
  try {
    const path = join(folder, 'providers.db');
    const pin = (tool: string, name = `fix__${tool}`) => ({
      tool,
      name,
      digest: `sha256:${tool}`,
      definition: { tool },
    });
    {
      using pins = new ProviderPins(path, systemPowers());
      expect(pins.isKnown('fix')).toBe(false);
      pins.accept('fix', [pin('a')], 'first sight');
      // An answer with the name of another tool of the provider.
      expect(() => pins.accept('other', [{ ...pin('b'), digest: null as never }], 'me')).toThrow('can not be');
    }
    using pins = new ProviderPins(path, systemPowers());
    expect(pins.isKnown('fix')).toBe(true);
    expect(pins.isKnown('other')).toBe(false);
    expect(pins.pinsOf('fix')).toEqual([pin('a')]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
