/** What package.json says, for npm, pnpm and yarn. */
import { ToolError } from '../../../base/errors.ts';
import { jsonOr } from '../../../base/text/json.ts';
import { isRecord } from '../../../base/text/values.ts';

export interface Manifest {
  /** Names of the packages that the project itself asks for. */
  readonly names: Set<string>;
  /** The range, tag or URL that it asks for, by name. */
  readonly specs: readonly (readonly [name: string, spec: string])[];
  readonly value: Readonly<Record<string, unknown>>;
}

const KINDS = ['dependencies', 'devDependencies', 'optionalDependencies', 'peerDependencies'];

/** Throws INPUT_INVALID for what is no JSON object, UNSUPPORTED for workspaces. */
export function readManifest(text: string): Manifest {
  const value = jsonOr(text, undefined);
  if (!isRecord(value)) throw new ToolError('INPUT_INVALID', 'package.json is no JSON object');
  if (value.workspaces !== undefined)
    throw new ToolError('UNSUPPORTED', 'package.json has workspaces, which are not supported');
  const entries = [...KINDS, 'resolutions'].map((kind) => [kind, value[kind]] as const);
  const specs = entries.flatMap(([, it]) =>
    isRecord(it) ? Object.entries(it).map(([name, spec]) => [name, String(spec)] as const) : [],
  );
  const named = entries.filter(([kind]) => KINDS.includes(kind));
  return { names: new Set(named.flatMap(([, it]) => (isRecord(it) ? Object.keys(it) : []))), specs, value };
}

/**
 * Throws POLICY_DENIED for what the project asks for from anywhere but the registry: managers would read folders, start git, or run
 * code (`exec:`) when they plan.
 */
export function assertFromRegistry({ specs }: Manifest): void {
  const foreign = specs.filter(([, spec]) => !/^(npm:(@[\w.~-]+\/)?[\w.~-]+@)?[\w.^~<>=|*+ -]*$/.test(spec));
  const [first] = foreign;
  if (!first) return;
  const findings = foreign.map(([name, spec]) => ({
    package: name,
    problem: `is asked for from ${JSON.stringify(spec.slice(0, 200))}`,
  }));
  throw new ToolError(
    'POLICY_DENIED',
    `nothing was planned: ${first[0]} is asked for from ${JSON.stringify(first[1].slice(0, 200))}, which is not the registry`,
    {
      suggestion: 'This can not be accepted; ask the person to install it.',
      details: { findings: findings.slice(0, 100) },
    },
  );
}
