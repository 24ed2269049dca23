// Packages that clients load: each CLI start and each program with `ringfence/client` pays for them.

import { rolldown } from 'rolldown';
import { expect, test } from 'vitest';

test('the client loads no package but msgpackr, so that no start of the CLI builds schemas', async () => {
  const made = await rolldown({ input: 'src/client/client.ts', platform: 'node', external: /^[^./]/ });
  const { output } = await made.generate();
  const imports = output.flatMap((it) => (it.type === 'chunk' ? it.imports : []));
  expect(imports.filter((it) => !it.startsWith('node:') && !it.endsWith('.js'))).toEqual(['msgpackr/pack']);
});
