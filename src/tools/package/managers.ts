/** The package managers that are supported, and which one a project has. */
import { posix } from 'node:path';
import { ToolError } from '../../base/errors.ts';
import { holds } from '../context/file-presence.ts';
import type { ToolContext } from '../tool.ts';
import { npm } from './npm/npm.ts';
import { pnpm } from './pnpm/pnpm.ts';
import { pip } from './python/pip.ts';
import type { Input } from './schemas.ts';
import type { ManagerName } from './settings.ts';
import type { PackageManager } from './steps.ts';

const SUPPORTED: Readonly<Partial<Record<ManagerName, PackageManager>>> = { npm, pnpm, pip };

/** Files by which a project's manager is known, by language, the surest first. */
const FILES: readonly (readonly (readonly [file: string, manager: ManagerName])[])[] = [
  [
    ['package-lock.json', 'npm'],
    ['pnpm-lock.yaml', 'pnpm'],
    ['yarn.lock', 'yarn'],
    ['package.json', 'npm'],
  ],
  [
    ['uv.lock', 'uv'],
    ['requirements.txt', 'pip'],
  ],
  [['Cargo.toml', 'cargo']],
  [['go.mod', 'go']],
];

/** The manager of a project; npm for a folder that has none of its files. Throws INPUT_INVALID for a project of several languages. */
export function managerAt(folder: string, ctx: ToolContext): ManagerName {
  const found = FILES.map((files) => files.find(([file]) => holds(posix.join(folder, file), ctx)));
  const [first, second] = found.filter((it) => it !== undefined);
  if (!first || !second) return first?.[1] ?? 'npm';
  const which = `\`manager\` must be ${first[1]} or ${second[1]}`;
  throw new ToolError('INPUT_INVALID', `${folder} has ${first[0]} and ${second[0]}: ${which}`);
}

/** The manager of a call whose `auto` is settled. Throws UNSUPPORTED. */
export function managerOf({ manager }: Pick<Input, 'manager'>): PackageManager {
  const found = SUPPORTED[nameOf(manager)];
  if (found) return found;
  throw new ToolError(
    'UNSUPPORTED',
    `${manager} is not planned and judged before it installs, as npm, pnpm and pip are`,
    {
      suggestion: `Run ${manager} by terminal_execute: its sandbox bounds it, and a person is asked about its registry.`,
    },
  );
}

/** What a call that leaves it open is judged as before its project is looked at. */
export const nameOf = (manager: Input['manager']): ManagerName => (manager === 'auto' ? 'npm' : manager);

/** The same for judging, which must not throw. */
export const judgedAs = ({ manager }: Pick<Input, 'manager'>): PackageManager => SUPPORTED[nameOf(manager)] ?? npm;

/** Throws UNSUPPORTED where the packages of a manager have no scripts. */
export function assertScripts({ allowScripts }: Pick<Input, 'allowScripts'>, manager: PackageManager): void {
  if (allowScripts.length > 0 && !manager.hasScripts)
    throw new ToolError('UNSUPPORTED', `${manager.name} installs packages without scripts: leave out \`allowScripts\``);
}

/** Throws INPUT_INVALID for names that the manager could take for something else, such as an address. */
export function assertNames({ packages, allowScripts }: Input, { name, packageName }: PackageManager): void {
  const wrong = [...packages.map((it) => it.name), ...allowScripts].find((it) => !packageName.test(it));
  if (wrong !== undefined) throw new ToolError('INPUT_INVALID', `${wrong} is no name of a package for ${name}`);
}
