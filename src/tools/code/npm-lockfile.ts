/** What package-lock.json of npm (versions 2 and 3) says of the packages of a project. */
import { isRecord } from '../../base/text/values.ts';

export interface LockedPackage {
  name: string;
  installed: string;
  /** The range that the project asks for; only of direct dependencies. */
  wanted?: string;
  direct: boolean;
  /** These two and `hasInstallScript` are absent if the lockfile does not tell. */
  dev?: boolean;
  optional?: boolean;
  license?: string;
  hasInstallScript?: boolean;
}

export interface TreeEntry {
  name: string;
  version: string;
  /** 1 for what the project itself asks for. */
  depth: number;
  /** Whether its own dependencies are shown at an earlier place. */
  deduped: boolean;
}

/** A package that a registry may know. */
export interface RegistryPackage {
  readonly name: string;
  readonly version: string;
  readonly direct: boolean;
  /** URL that it was installed from; absent if the lockfile leaves it out. */
  readonly from?: string;
}

/** The packages of a project, as a lockfile of any manager tells them. */
export interface Lockfile {
  /** All packages, sorted by name. */
  list(): LockedPackage[];
  /** The packages that an npm registry may know. */
  registryPackages(): RegistryPackage[];
  /** The packages, each before what it depends on; undefined if the file does not tell who needs whom. */
  tree(depthMax: number, entriesMax: number): { entries: TreeEntry[]; truncated: boolean } | undefined;
}

/** A place of a package, as keys of `packages` in the lockfile name them: `node_modules/a/node_modules/b`. */
type Place = string;

export class NpmLockfile implements Lockfile {
  readonly #packages: ReadonlyMap<Place, Readonly<Record<string, unknown>>>;

  /** `value` is the parsed lockfile. What has another type than it should is left out. */
  constructor(value: unknown) {
    const packages = isRecord(value) && isRecord(value.packages) ? value.packages : {};
    this.#packages = new Map(
      Object.entries(packages).filter((it): it is [string, Record<string, unknown>] => isRecord(it[1])),
    );
  }

  /** All packages that are installed, sorted by name. */
  list(): LockedPackage[] {
    const direct = new Map(this.#rangesOf('').map(([name, range]) => [this.#placeOf('', name), range]));
    const found = [...this.#packages].flatMap(([place, it]): LockedPackage[] => {
      if (!place.includes('node_modules/')) return [];
      const own = this.#packageAt(place);
      const wanted = direct.get(place);
      const { license } = own;
      return [
        {
          name: nameOf(place, it),
          installed: textOf(own.version),
          ...(wanted !== undefined && { wanted }),
          direct: direct.has(place),
          dev: it.dev === true || it.devOptional === true,
          optional: it.optional === true || it.devOptional === true,
          ...(typeof license === 'string' && { license }),
          hasInstallScript: it.hasInstallScript === true,
        },
      ];
    });
    return found.sort((a, b) => (a.name === b.name ? (a.installed < b.installed ? -1 : 1) : a.name < b.name ? -1 : 1));
  }

  /** The packages that did not come from a folder, an archive or a repository. */
  registryPackages(): RegistryPackage[] {
    const direct = new Set(this.#rangesOf('').map(([name]) => this.#placeOf('', name)));
    return [...this.#packages].flatMap(([place, it]): RegistryPackage[] => {
      const from = textOf(it.resolved);
      if (!place.includes('node_modules/') || it.link === true || !/^(https?:\/\/|$)/.test(from)) return [];
      const [name, version] = [nameOf(place, it), textOf(it.version)];
      return [{ name, version, direct: direct.has(place), ...(from !== '' && { from }) }];
    });
  }

  /** The packages below the project, each before what it depends on; no package is unfolded twice. */
  tree(depthMax: number, entriesMax: number): { entries: TreeEntry[]; truncated: boolean } {
    const entries: TreeEntry[] = [];
    const unfolded = new Set<Place>();
    const left = this.#childrenOf('')
      .map((place) => ({ place, depth: 1 }))
      .reverse();
    for (let next = left.pop(); next; next = left.pop()) {
      if (entries.length >= entriesMax) return { entries, truncated: true };
      const { place, depth } = next;
      const it = this.#packageAt(place);
      const children = depth < depthMax ? this.#childrenOf(place) : [];
      const deduped = unfolded.has(place) && children.length > 0;
      entries.push({ name: nameOf(place, it), version: textOf(it.version), depth, deduped });
      if (deduped) continue;
      unfolded.add(place);
      for (const child of children.reverse()) left.push({ place: child, depth: depth + 1 });
    }
    return { entries, truncated: false };
  }

  #childrenOf(place: Place): Place[] {
    return this.#rangesOf(place).flatMap(([name]) => this.#placeOf(place, name) ?? []);
  }

  /** The names and ranges that a package asks for; those for development only of the project itself. */
  #rangesOf(place: Place): [name: string, range: string][] {
    const it = this.#packageAt(place);
    const kinds = ['dependencies', 'optionalDependencies', ...(place === '' ? ['devDependencies'] : [])];
    const ranges = kinds.flatMap((kind) => (isRecord(it[kind]) ? Object.entries(it[kind]) : []));
    return [...new Map(ranges.map(([name, range]) => [name, textOf(range)]))].sort(([a], [b]) => (a < b ? -1 : 1));
  }

  /** A package of the workspace is a link to its folder, which is a place of its own. */
  #packageAt(place: Place): Readonly<Record<string, unknown>> {
    const it = this.#packages.get(place) ?? {};
    return it.link === true ? (this.#packages.get(textOf(it.resolved)) ?? it) : it;
  }

  /** The place at which Node finds a package from another one: in its own node_modules, or in one above. */
  #placeOf(from: Place, name: string): Place | undefined {
    for (let at = from; ; ) {
      const place = `${at === '' ? '' : `${at}/`}node_modules/${name}`;
      if (this.#packages.has(place)) return place;
      if (at === '') return undefined;
      const above = at.lastIndexOf('/node_modules/');
      at = above < 0 ? '' : at.slice(0, above);
    }
  }
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value.slice(0, TEXT_CHARS) : '');
const TEXT_CHARS = 500;

/** An alias has a name of its own beside that of its place. */
const nameOf = (place: Place, it: Readonly<Record<string, unknown>>): string =>
  textOf(it.name) || place.replace(/^.*node_modules\//, '').slice(0, TEXT_CHARS);
