// Writes the systemd units of the Debian package below a folder: script/deb-units.ts FOLDER. `ringfence service install`
// renders the same ones for other paths.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Scope, unitFiles } from '../src/cli/service/units.ts';

const [, , folder = ''] = process.argv;
if (folder === '') throw new Error('deb-units.ts takes the folder that the units go to');
for (const scope of ['user', 'system'] satisfies Scope[]) {
  const to = join(folder, scope);
  mkdirSync(to, { recursive: true });
  // Which Node will run is not known here; a child notifies with any.
  const options = { node: '/usr/bin/node', program: '/usr/lib/ringfence/bin/ringfenced.js', hasFfi: false };
  for (const [name, text] of unitFiles({ scope, ...options })) writeFileSync(join(to, name), text);
}
