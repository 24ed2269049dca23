/** Where our own code lies, in the checkout (.ts) and in the published package (.js), and how a host is started from it. */
import { existsSync, lstatSync, readFileSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(import.meta.url);
const extension = extname(here);
/** `src` and `workers` lie beside each other here: the package's folder, or its `dist`. */
const base = dirname(dirname(here));
const packageDir = existsSync(join(base, 'package.json')) ? base : dirname(base);

const { version: ownVersion, homepage } = JSON.parse(readFileSync(join(packageDir, 'package.json'), 'utf8')) as {
  version: string;
  homepage: string;
};

export const version: string = ownVersion;

/** URL of a page below `docs/`, in the repository that package.json names. */
export const docsUrl = (page: string): string => `${homepage.replace(/#.*$/, '')}/blob/main/docs/${page}`;

/** An entry of ours as a file to run. */
export const entry = (name: 'main' | 'cli'): string => join(base, 'src', `${name}${extension}`);

/** What a person runs. */
export const bin: string = join(packageDir, 'bin/ringfence.js');

/** Program and arguments of a tier host. */
export const hostProgram: readonly string[] = [
  process.execPath,
  '--disable-warning=ExperimentalWarning',
  '--max-semi-space-size=8',
  join(base, 'workers', `host${extension}`),
];

/** Program and arguments of an isolate host. Node's own start-up snapshot and further isolates do not go together. */
export const isolateProgram: readonly string[] = [
  process.execPath,
  '--disable-warning=ExperimentalWarning',
  '--no-node-snapshot',
  join(base, 'workers', `isolate${extension}`),
];

/** Program and arguments of a host of plugins that share a realm. */
export const compartmentProgram: readonly string[] = [
  process.execPath,
  '--disable-warning=ExperimentalWarning',
  join(base, 'workers', `compartment${extension}`),
];

/** Program and arguments of the egress proxy. */
export const egressProgram: readonly string[] = [
  process.execPath,
  '--disable-warning=ExperimentalWarning',
  join(base, 'workers', `egress${extension}`),
];

/** Program and arguments of a provider host. */
export const providerProgram: readonly string[] = [
  process.execPath,
  '--disable-warning=ExperimentalWarning',
  '--max-old-space-size=256',
  join(base, 'workers', `provider${extension}`),
];

/** Files that stand in the /etc of commands in place of the machine's. */
const etc = join(packageDir, 'etc');

/** What a host must be able to read: our code, Node, and the packages that it loads, wherever they were installed. */
function neededPaths(): string[] {
  const loaded = [
    'zod',
    'piscina',
    'mime',
    'ajv',
    'yaml',
    'smol-toml',
    'jsonc-parser',
    '@lydell/node-pty',
    '@xterm/headless',
    '@vscode/ripgrep',
    'vscode-jsonrpc/node',
    '@ast-grep/napi',
    '@ast-grep/lang-python',
    '@ast-grep/lang-rust',
    '@ast-grep/lang-go',
    'typescript',
    'isolated-vm',
    '@modelcontextprotocol/client',
    'ses',
  ];
  const files = loaded.map((name) => fileURLToPath(import.meta.resolve(name)));
  const modules = [...files, ...NATIVE.flatMap(nativeOf)].map(modulesOf);
  const binary = ptyBinary();
  if (binary !== undefined) modules.push(binary);
  const code = [join(base, 'src'), join(base, 'workers'), etc, join(packageDir, 'package.json')];
  const paths = [...code, ...modules, realpathSync(process.execPath)].map((path) => realpathSync(path));
  // Where it is a link, hosts look for their packages by its name.
  const linked = join(packageDir, 'node_modules');
  if (lstatSync(linked, { throwIfNoEntry: false })?.isSymbolicLink()) paths.push(linked);
  const unique = [...new Set(paths)];
  // Inside /usr it is there already, inside another one too.
  return unique.filter((path) => !path.startsWith('/usr/') && !unique.some((it) => path.startsWith(`${it}/`)));
}

/** The folder in which a package and those that it loads lie: of pnpm all of its store, where each has links to its own beside it. */
export function modulesOf(path: string): string {
  const [store] = path.match(/^.*?\/node_modules\/\.pnpm(?=\/)/) ?? [];
  return store ?? path.slice(0, path.lastIndexOf('/node_modules/') + '/node_modules'.length);
}

/** Packages whose programs are in another one for each platform. */
const NATIVE = [
  { module: '@vscode/ripgrep', program: '@vscode/ripgrep', path: 'bin/rg' },
  { module: 'typescript', program: '@typescript/typescript', path: 'package.json' },
];

/** The program's package; none where it was not installed, and the tools that need it say so. */
function nativeOf({ module, program, path }: (typeof NATIVE)[number]): string[] {
  try {
    const { resolve } = createRequire(import.meta.resolve(module));
    return [resolve(`${program}-${process.platform}-${process.arch}/${path}`)];
  } catch {
    return []; // MODULE_NOT_FOUND
  }
}

/** The folder of node-pty's binary, which some installers put elsewhere; undefined where there is none for this machine. */
function ptyBinary(): string | undefined {
  const { platform, arch } = process;
  try {
    const { resolve } = createRequire(import.meta.resolve('@lydell/node-pty'));
    return dirname(resolve(`@lydell/node-pty-${platform}-${arch}/package.json`));
  } catch {
    return undefined; // MODULE_NOT_FOUND: installed without optional dependencies.
  }
}

/** Everything of the package that is run, or decides what is run. */
const OWN = [
  'bin',
  'dist',
  'etc',
  'policies',
  'src',
  'workers',
  'script',
  'node_modules',
  'package.json',
  'package-lock.json',
  'tsconfig.json',
];

export const runtime = {
  etc,
  needed: neededPaths(),
  guarded: OWN.map((name) => join(packageDir, name)).filter((path) => existsSync(path)),
} as const;
