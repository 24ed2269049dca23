/** Locates our own code, in a checkout (.ts) or in the published package (.js), and the programs of the hosts. */
import { existsSync, lstatSync, readFileSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { codeFolder, nativeFolder } from './native-programs.ts';

const here = fileURLToPath(import.meta.url);
const extension = extname(here);
const base = codeFolder;
const packageDir = existsSync(join(base, 'package.json')) ? base : dirname(base);

const { version: ownVersion, homepage } = JSON.parse(readFileSync(join(packageDir, 'package.json'), 'utf8')) as {
  version: string;
  homepage: string;
};

export const version: string = ownVersion;

/** URL of a page below `docs/`, in the repository that package.json names. */
export const docsUrl = (page: string): string => `${homepage.replace(/#.*$/, '')}/blob/main/docs/${page}`;

/** The file of an entry. */
export const entry = (name: 'entries/main' | 'entries/cli' | 'testing/daemon-process'): string =>
  join(base, 'src', `${name}${extension}`);

/** The oldest Node that runs the daemon; bin/start.js says the same to older ones. */
export const NODE_MIN = '26.0.0';

/** Program and arguments of the daemon, with the package's own Node where this one is too old; undefined in the client's package. */
export const daemonProgram: readonly string[] | undefined = !existsSync(entry('entries/main'))
  ? undefined
  : Number.parseInt(process.versions.node, 10) >= Number.parseInt(NODE_MIN, 10)
    ? [process.execPath, entry('entries/main')]
    : [join(packageDir, 'bin/ringfenced')];

/** The command line that starts a daemon. */
export const toStart: string = daemonProgram ? 'ringfence serve --detach' : 'ringfence vm start';

/** The program that a person runs. */
export const bin: string = join(packageDir, 'bin/ringfence.js');

/** The folder with the files that `new` begins a tool, a plugin or a connector with. */
export const skeletonsFolder: string = join(packageDir, 'examples/skeletons');

/** The same as a program and its arguments, for the daemon. */
export const cliProgram: readonly string[] = [process.execPath, '--disable-warning=ExperimentalWarning', bin];

/** The folder of the web panel's built page. */
export const panelFolder: string = join(packageDir, 'dist/panel');

/**
 * Program and arguments of a host. No signal may start Node's inspector in it, which would give what the process holds to
 * whoever reaches a port.
 */
const hostOf = (name: string, ...flags: string[]): readonly string[] => [
  process.execPath,
  '--disable-warning=ExperimentalWarning',
  '--disable-sigusr1',
  ...flags,
  join(base, 'workers', `${name}${extension}`),
];

export const hostProgram = hostOf('host', '--max-semi-space-size=8');
/** Node's start-up snapshot does not work with further isolates. */
export const isolateProgram = hostOf('isolate', '--no-node-snapshot');
/** For plugins that share a realm. */
export const compartmentProgram = hostOf('compartment');
/** For the conversations of sub-agents: small, since one process is needed for each that runs. */
export const agentProgram = hostOf('agent/agent-host', '--max-semi-space-size=2');
/** For what one database server sends. Nothing in it makes code of texts. */
export const databaseProgram = hostOf('database/process', '--disallow-code-generation-from-strings');
export const egressProgram = hostOf('egress');
export const browserProgram = hostOf('browser', '--max-old-space-size=256');
export const providerProgram = hostOf('provider', '--max-old-space-size=256');

/** Program and arguments of the process that links the daemon to a fleet. */
export const fleetProgram: readonly string[] = [
  process.execPath,
  '--disable-warning=ExperimentalWarning',
  '--disable-sigusr1',
  join(base, 'src', `entries/fleet-node${extension}`),
];

/** Files that replace the machine's in the /etc of commands. */
const etc = join(packageDir, 'etc');

/** Paths that a host must be able to read: our code, Node, and the packages that no bundle holds, wherever they are installed. */
function neededPaths(): string[] {
  const loaded = [
    'piscina',
    '@lydell/node-pty',
    '@xterm/headless',
    '@vscode/ripgrep',
    '@ast-grep/napi',
    'typescript',
    'ses',
  ];
  const files = loaded.map((name) => fileURLToPath(import.meta.resolve(name)));
  files.push(...OPTIONAL.flatMap(optional));
  const modules = [...files, ...NATIVE.flatMap(nativeOf)].map(modulesOf);
  const binary = ptyBinary();
  if (binary !== undefined) modules.push(binary);
  const native = existsSync(nativeFolder) ? [nativeFolder] : [];
  const code = [join(base, 'src'), join(base, 'workers'), ...native, etc, join(packageDir, 'package.json')];
  const paths = [...code, ...modules, realpathSync(process.execPath)].map((path) => realpathSync(path));
  // If it is a link, hosts look for their packages by its name.
  const linked = join(packageDir, 'node_modules');
  if (lstatSync(linked, { throwIfNoEntry: false })?.isSymbolicLink()) paths.push(linked);
  const unique = [...new Set(paths)];
  // A path in /usr is visible anyway, and so is one below another.
  return unique.filter((path) => !path.startsWith('/usr/') && !unique.some((it) => path.startsWith(`${it}/`)));
}

/** Packages that people install beside this one. */
const OPTIONAL = ['@duckdb/node-api'];

/** The file of an optional package; none if it is not installed. */
function optional(name: string): string[] {
  try {
    return [fileURLToPath(import.meta.resolve(name))];
  } catch {
    return []; // ERR_MODULE_NOT_FOUND
  }
}

/** The folder that holds a package and its dependencies; for pnpm the whole store, which links each package's dependencies beside it. */
export function modulesOf(path: string): string {
  const [store] = path.match(/^.*?\/node_modules\/\.pnpm(?=\/)/) ?? [];
  return store ?? path.slice(0, path.lastIndexOf('/node_modules/') + '/node_modules'.length);
}

/** Packages whose programs are in a separate package for each platform. */
const NATIVE = [
  { module: '@vscode/ripgrep', program: '@vscode/ripgrep', path: 'bin/rg' },
  { module: 'typescript', program: '@typescript/typescript', path: 'package.json' },
];

/** The package of a program for this platform; none if it is not installed, which the tools that need it report. */
function nativeOf({ module, program, path }: (typeof NATIVE)[number]): string[] {
  try {
    const { resolve } = createRequire(import.meta.resolve(module));
    return [resolve(`${program}-${process.platform}-${process.arch}/${path}`)];
  } catch {
    return []; // MODULE_NOT_FOUND
  }
}

/** The folder of node-pty's binary, which some installers put elsewhere; undefined if there is none for this machine. */
function ptyBinary(): string | undefined {
  const { platform, arch } = process;
  try {
    const { resolve } = createRequire(import.meta.resolve('@lydell/node-pty'));
    return dirname(resolve(`@lydell/node-pty-${platform}-${arch}/package.json`));
  } catch {
    return undefined; // MODULE_NOT_FOUND: installed without optional dependencies.
  }
}

/** Everything in the package that is run, or decides what is run. */
const OWN = [
  'bin',
  'connectors',
  'dist',
  'etc',
  'native',
  'policies',
  'src',
  'workers',
  'script',
  'node_modules',
  'package.json',
  'package-lock.json',
  'tsconfig.json',
];

let needed: readonly string[] | undefined;

export const runtime = {
  etc,
  /** Resolving each package takes a while, and most command lines start no host. */
  get needed(): readonly string[] {
    needed ??= neededPaths();
    return needed;
  },
  guarded: OWN.map((name) => join(packageDir, name)).filter((path) => existsSync(path)),
} as const;
