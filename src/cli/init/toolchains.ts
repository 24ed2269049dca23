/**
 * Finds toolchains of version managers on the person's PATH, so that `ringfence init` can propose to show them to commands. Only reads
 * files and runs no program, since a shim would run whatever its project says.
 */
import { existsSync } from 'node:fs';
import { join, relative } from 'node:path';
import { parse as parseToml } from 'smol-toml';
import { isInside } from '../../base/paths.ts';
import { namesAt, realOf, textAt } from '../../base/quiet/reads.ts';
import { toolchainProblem } from '../../daemon/command-environment.ts';

export interface Toolchain {
  /** Absolute real path of the folder of one version. */
  readonly path: string;
  readonly manager: string;
}

/** Folders below the home directory that hold one version each; the first group is the part that commands need to see. */
const VERSIONS: readonly { readonly manager: string; readonly folder: RegExp }[] = [
  { manager: 'nvm', folder: /^(\.nvm\/versions\/node\/[^/]+)\/bin$/ },
  { manager: 'fnm', folder: /^((?:\.local\/share\/fnm|\.fnm)\/node-versions\/[^/]+\/installation)\/bin$/ },
  { manager: 'volta', folder: /^(\.volta\/tools\/image\/[^/]+\/[^/]+)\/bin$/ },
  { manager: 'mise', folder: /^(\.local\/share\/mise\/installs\/[^/]+\/[^/]+)(?:\/bin)?$/ },
  { manager: 'asdf', folder: /^(\.asdf\/installs\/[^/]+\/[^/]+)(?:\/[^/]+)?\/bin$/ },
  { manager: 'pyenv', folder: /^(\.pyenv\/versions\/[^/]+)\/bin$/ },
  { manager: 'uv', folder: /^(\.local\/share\/uv\/python\/[^/]+)\/bin$/ },
  { manager: 'rustup', folder: /^(\.rustup\/toolchains\/[^/]+)\/bin$/ },
  { manager: 'go', folder: /^((?:sdk\/go[^/]*|\.local\/go|\.go))\/bin$/ },
  { manager: 'sdkman', folder: /^(\.sdkman\/candidates\/[^/]+\/[^/]+)\/bin$/ },
  { manager: 'bun', folder: /^(\.bun\/bin)$/ },
  { manager: 'deno', folder: /^(\.deno\/bin)$/ },
];

/** Folders of shims, whose versions are set in a file of the manager. */
const SHIMS: readonly { readonly folder: string; readonly bins: (home: string) => string[] }[] = [
  { folder: '.volta/bin', bins: voltaBins },
  { folder: '.asdf/shims', bins: (home) => asdfBins(home, textOf(join(home, '.tool-versions'))) },
  { folder: '.local/share/mise/shims', bins: (home) => miseBins(home, textOf(join(home, '.config/mise/config.toml'))) },
  { folder: '.pyenv/shims', bins: (home) => pythonBins(home, textOf(join(home, '.pyenv/version'))) },
  { folder: '.cargo/bin', bins: rustupBins },
  { folder: '.local/bin', bins: uvBins },
];

type BinsOf = (home: string, text: string) => string[];
/** Files in which a project names the versions that it needs. */
const PINS: readonly (readonly [name: string, bins: BinsOf])[] = [
  ['.nvmrc', nodeBins],
  ['.node-version', nodeBins],
  [
    'package.json',
    (home, text) => nodeBins(home, /"volta"\s*:\s*\{[^}]*"node"\s*:\s*"([\d.]+)"/.exec(text)?.[1] ?? ''),
  ],
  ['.tool-versions', asdfBins],
  ['mise.toml', miseBins],
  ['.mise.toml', miseBins],
  ['.python-version', pythonBins],
  ['rust-toolchain.toml', (home, text) => rustBins(home, /^\s*channel\s*=\s*"([\w.-]+)"/m.exec(text)?.[1] ?? '')],
  ['rust-toolchain', rustBins],
  ['.sdkmanrc', sdkmanBins],
  ['go.mod', (home, text) => newestIn(join(home, 'sdk'), /^toolchain (go[\w.]+)/m.exec(text)?.[1] ?? '', 'bin')],
];

/** Most toolchains that are proposed at once. */
const TOOLCHAINS_MAX = 16;
const PIN_CHARS_MAX = 64 * 1024;

interface ToolchainPlaces {
  readonly path: string;
  readonly home: string;
  /** Workspaces and the daemon's own folders: absolute real paths. */
  readonly closed: readonly string[];
}

/**
 * The toolchains behind `path`, in its order. Leaves out those that commands may not see (folders with keys, the home directory, `closed`).
 */
export function findToolchains({ path, home, closed }: ToolchainPlaces): Toolchain[] {
  const found = new Map<string, Toolchain>();
  for (const entry of path.split(':').filter((it) => isInside(home, it)))
    for (const bin of [entry, ...(SHIMS.find((it) => join(home, it.folder) === entry)?.bins(home) ?? [])]) {
      const toolchain = versionAt(bin, home);
      if (toolchain && toolchainProblem(toolchain.path, { home, closed }) === undefined)
        found.set(toolchain.path, toolchain);
    }
  return [...found.values()].slice(0, TOOLCHAINS_MAX);
}

/**
 * The installed toolchains that a project's files name. The files are strangers' words: they choose among the versions that managers
 * hold, and can name no other folder.
 */
export function findPinned(project: string, { home, closed }: Omit<ToolchainPlaces, 'path'>): Toolchain[] {
  const bins = PINS.flatMap(([name, binsOf]) => binsOf(home, textOf(join(project, name)).slice(0, PIN_CHARS_MAX)));
  const found = bins.map((it) => versionAt(it, home)).filter((it) => it !== undefined);
  const allowed = found.filter((it) => toolchainProblem(it.path, { home, closed }) === undefined);
  return [...new Map(allowed.map((it) => [it.path, it])).values()].slice(0, TOOLCHAINS_MAX);
}

/** The version whose programs are in the folder `bin`; follows links (fnm, sdkman's `current`). */
function versionAt(bin: string, home: string): Toolchain | undefined {
  const real = realOf(bin);
  if (real === undefined || !isInside(home, real)) return undefined;
  for (const { manager, folder } of VERSIONS) {
    const [, version] = folder.exec(relative(home, real)) ?? [];
    if (version !== undefined) return { path: join(home, version), manager };
  }
  return undefined;
}

function voltaBins(home: string): string[] {
  const platform = textOf(join(home, '.volta/tools/user/platform.json'));
  const [, version] = /"runtime"\s*:\s*"([^"/]+)"/.exec(platform) ?? [];
  return version === undefined ? [] : [join(home, '.volta/tools/image/node', version, 'bin')];
}

/** Versions from lines such as `nodejs 22.1.0`. */
function asdfBins(home: string, text: string): string[] {
  const chosen = [...text.matchAll(/^([\w-]+)[ \t]+([\w.+-]+)/gm)];
  return chosen.map(([, tool = '', version = '']) => join(home, '.asdf/installs', tool, version, 'bin'));
}

/** Versions from the table `[tools]`. */
function miseBins(home: string, text: string): string[] {
  const chosen = Object.entries(tomlOf(text).tools ?? {}).filter(
    (it): it is [string, string] => typeof it[1] === 'string',
  );
  return chosen.flatMap(([tool, version]) => {
    const folder = join(home, '.local/share/mise/installs', tool, version);
    return [join(folder, 'bin'), folder].filter((it) => existsSync(it)).slice(0, 1);
  });
}

/** Folders of Node's versions, by manager, and where the programs are below one. */
const NODES = [
  ['.nvm/versions/node', 'bin'],
  ['.local/share/fnm/node-versions', 'installation/bin'],
  ['.volta/tools/image/node', 'bin'],
] as const;

/** Node of the first manager that holds the version: `22`, `v22.1`, `lts/jod` (of which nvm keeps the number). */
function nodeBins(home: string, text: string): string[] {
  const word = text.trim().replace(/^v/, '');
  const [, codename] = /^lts\/(\w+)$/.exec(word) ?? [];
  const version =
    codename === undefined
      ? word
      : textOf(join(home, '.nvm/alias/lts', codename))
          .trim()
          .replace(/^v/, '');
  return NODES.flatMap(([folder, bin]) => newestIn(join(home, folder), version, bin)).slice(0, 1);
}

function pythonBins(home: string, text: string): string[] {
  const folders = ['.pyenv/versions', '.local/share/uv/python'].map((it) => join(home, it));
  return text.split(/\s+/).flatMap((version) => folders.flatMap((it) => newestIn(it, version, 'bin')));
}

function rustBins(home: string, text: string): string[] {
  return newestIn(join(home, '.rustup/toolchains'), text.trim(), 'bin');
}

/** Versions from lines such as `java=21.0.2-tem`. */
function sdkmanBins(home: string, text: string): string[] {
  const chosen = [...text.matchAll(/^(\w+)=([\w.+-]+)/gm)];
  return chosen.map(([, tool = '', version = '']) => join(home, '.sdkman/candidates', tool, version, 'bin'));
}

/** The programs of the newest folder that is a version as wanted, or a more exact one: `22` is `v22.1.0`, `stable` is `stable-x86_64`. */
function newestIn(folder: string, wanted: string, bin: string): string[] {
  if (!/^[\w.+-]+$/.test(wanted)) return [];
  const isWanted = (name: string) => {
    const version = name.replace(/^(?:v|cpython-)/, '');
    return version.startsWith(wanted) && /^(?:$|[.-])/.test(version.slice(wanted.length));
  };
  const [newest] = namesAt(folder)
    .filter(isWanted)
    .sort((a, b) => b.localeCompare(a, 'en', { numeric: true }));
  return newest === undefined ? [] : [join(folder, newest, bin)];
}

function rustupBins(home: string): string[] {
  const { default_toolchain: name } = tomlOf(textOf(join(home, '.rustup/settings.toml')));
  return typeof name === 'string' ? [join(home, '.rustup/toolchains', name, 'bin')] : [];
}

/** Pythons that uv installed and links as `python3.12` in ~/.local/bin. */
function uvBins(home: string): string[] {
  const folder = join(home, '.local/bin');
  const pythons = namesAt(folder).filter((it) => /^python[\d.]*$/.test(it));
  return pythons.map((it) => join(realOf(join(folder, it)) ?? folder, '..'));
}

/** The text of a manager's file; empty if it has none. */
const textOf = (path: string): string => textAt(path) ?? '';

function tomlOf(text: string): Record<string, unknown> & { readonly tools?: object } {
  try {
    return parseToml(text);
  } catch {
    return {}; // The manager itself would reject that file.
  }
}
