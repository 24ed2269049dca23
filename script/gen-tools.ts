// Writes src/tools/builtin.ts: one import per file src/tools/<group>/<verb>.ts that declares a tool. Run it with `npm run gen`.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';

const root = new URL('../src/tools/', import.meta.url);
const groups = readdirSync(root, { withFileTypes: true }).filter((it) => it.isDirectory());
const tools = groups
  .flatMap(({ name }) =>
    readdirSync(new URL(`${name}/`, root))
      .filter((file) => readFileSync(new URL(`${name}/${file}`, root), 'utf8').includes('export default defineTool('))
      .map((file) => ({ group: name, verb: file.replace(/\.ts$/, '') })),
  )
  .map(({ group, verb }) => ({
    name: `${group}_${verb.replaceAll('-', '_')}`,
    id: `${group}-${verb}`.replace(/-(\w)/g, (_, char: string) => char.toUpperCase()),
    path: `./${group}/${verb}.ts`,
  }))
  // As biome sorts imports: a name before one that goes on.
  .sort((a, b) => (a.path.slice(0, -3) < b.path.slice(0, -3) ? -1 : 1));

const text = [
  '/** Written by `npm run gen` from the files of src/tools/<group>/; test/tidy.test.ts compares it with them. */',
  ...tools.map(({ id, path }) => `import ${id} from '${path}';`),
  '',
  `export const builtinTools = { ${tools.map(({ name, id }) => `${name}: ${id}`).join(', ')} } as const;`,
  '',
].join('\n');

if (process.argv.includes('--print')) process.stdout.write(text);
else writeFileSync(new URL('builtin.ts', root), text);
