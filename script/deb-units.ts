// Writes the systemd units of the Debian package below a folder: script/deb-units.ts FOLDER. `ringfence service install`
// renders the same ones for other paths.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Scope, unitFiles } from '../src/cli/service/units.ts';

const [, , folder = ''] = process.argv;
const bundledNode = `node_modules/node-linux-${process.arch}/bin/node`;
if (folder === '') throw new Error('deb-units.ts takes the folder that the units go to');
for (const scope of ['user', 'system'] satisfies Scope[]) {
  const to = join(folder, scope);
  mkdirSync(to, { recursive: true });
  const lib = '/usr/lib/ringfence';
  const options = { node: `${lib}/${bundledNode}`, program: `${lib}/bin/ringfenced.js` };
  for (const [name, text] of unitFiles({ scope, ...options })) writeFileSync(join(to, name), text);
}
