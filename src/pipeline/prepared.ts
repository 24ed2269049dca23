/**
 * Plans of calls whose tool has `prepare`: made once a call, before a person is asked or, if nobody is, before it runs. The plan that
 * was shown is the one that runs.
 */
import * as z from 'zod';
import { ToolError } from '../base/errors.ts';
import type { RunRequest } from '../hosts/runs.ts';
import { type NetworkLayer, parseNetworkEntry } from '../policy/network.ts';
import { type Policy, unixSocketsOf } from '../policy/schema.ts';
import { destinationOf, type RegistryKind } from '../tools/context/requests.ts';
import { type PackageSettings, type PackageTerms, registriesOf } from '../tools/package/settings.ts';
import type { Prepared, Preview } from '../tools/tool.ts';
import { commandBoundsOf, homeOf, networkOf } from './execute/bounds.ts';
import { denialsOf } from './execute/denials.ts';
import { errorOf, inTime, type ReadOnlyRunParts } from './execute/read-only-run.ts';
import type { Call, CheckedCall, JudgedCall } from './stage.ts';

export interface PrepareParts extends ReadOnlyRunParts {
  readonly packages: PackageSettings;
}

/** A plan as a host sends it: what is shown and bound is checked, since a compromised host could send anything. */
const preparedShape = z.strictObject({
  plan: z.unknown(),
  hash: z.string().regex(/^sha256:[0-9a-f]{64}$/),
  diff: z.string(),
  preImages: z.array(z.strictObject({ path: z.string().max(4096), hash: z.string().max(128).nullable() })).max(16),
});

/** Name under which approvals list the plan among the files that they are bound to. */
const PLAN = 'the plan';
const DAY_MS = 86_400_000;

export class PreparedCalls {
  readonly #plans = new Map<AbortController, Promise<Prepared>>();
  readonly #parts: PrepareParts;

  constructor(parts: PrepareParts) {
    this.#parts = parts;
  }

  /** Forgets the plan of a call that has ended. */
  forget({ controller }: Pick<Call, 'controller'>): void {
    this.#plans.delete(controller);
  }

  /** What a person is shown; later, whether the files are still those that the plan was made from. */
  async preview(call: JudgedCall): Promise<Preview> {
    const { hash, diff, preImages } = await this.of(call);
    return { diff, preImages: [...preImages, { path: PLAN, hash }] };
  }

  /** The call's plan. Throws what the tool throws, QUEUE_FULL, POLICY_DENIED if the registry is not listed. */
  of(call: CheckedCall): Promise<Prepared> {
    const { packagePlansMax } = this.#parts.limits;
    const known = this.#plans.get(call.controller);
    if (known) return known;
    if (this.#plans.size >= packagePlansMax)
      throw new ToolError('QUEUE_FULL', `the daemon holds ${packagePlansMax} plans that wait for a person`);
    const made = this.#make(call);
    this.#plans.set(call.controller, made);
    // Avoids an unhandled rejection when nobody awaits it any more.
    made.catch(() => {});
    return made;
  }

  /** What `run` gets beside its input: the settings and the plan. */
  async plannedOf(call: CheckedCall): Promise<{ terms: PackageTerms; plan: unknown }> {
    const { plan } = await this.of(call);
    return { terms: this.#terms, plan };
  }

  get #terms(): PackageTerms {
    const { packages, powers } = this.#parts;
    const notAfter = new Date(powers.now() - packages.coolDownDays * DAY_MS).toISOString();
    return { ...packages, notAfter };
  }

  async #make(call: CheckedCall): Promise<Prepared> {
    const { hosts, viewOf, limits, packages } = this.#parts;
    const { tool, tier, input } = call.checked;
    const { policy, workspace, controller } = call;
    const request: RunRequest = {
      tool: tool.name,
      input,
      step: 'prepare',
      planned: this.#terms,
      readOnly: true,
      bounds: commandBoundsOf(policy, limits, tier),
      home: homeOf(call),
      unixSockets: unixSocketsOf(policy),
      network: tool.before?.registryOf && registryNetwork(policy, tool.before.registryOf(input as never), packages),
    };
    const key = { tier: 'execute', workspace, view: viewOf(call) } as const;
    const ran = await inTime(call, this.#parts, () => hosts.run(key, request, { signal: controller.signal }));
    const { result } = ran;
    if (!result.ok) {
      const refused = denialsOf(ran).flatMap(({ kind, target }) => (kind === 'connect' ? [target] : []));
      throw refused.length > 0 ? unlisted(refused) : errorOf(result, call);
    }
    const checked = preparedShape.safeParse(result.data);
    if (checked.success) return checked.data;
    throw new ToolError('INTERNAL', `\`${tool.name}\` made a plan of another form`);
  }
}

/** The network of a call's commands: what the policy lists, or of that the registry alone. */
export function networkFor(
  { tool, input }: Pick<CheckedCall['checked'], 'tool' | 'input'>,
  policy: Policy,
  packages: PackageSettings,
): readonly NetworkLayer[] | undefined {
  return tool.before?.registryOf
    ? registryNetwork(policy, tool.before?.registryOf(input as never), packages)
    : networkOf(policy);
}

/** Throws POLICY_DENIED if the policy lists no host: then a package manager could only fail. */
function registryNetwork(policy: Policy, kind: RegistryKind, packages: PackageSettings): readonly NetworkLayer[] {
  const layers = networkOf(policy);
  const hosts = [...new Set(registriesOf(kind, packages).map(destinationOf))];
  if (!layers) throw unlisted(hosts);
  return [...layers, hosts.map((it) => ({ ...parseNetworkEntry(it), private: true }))];
}

const unlisted = (hosts: readonly string[]): ToolError =>
  new ToolError(
    'POLICY_DENIED',
    `the policy does not list ${hosts.join(', ')} for commands, so the registry is not reached`,
    {
      rule: 'tiers.execute.network',
      suggestion: `Ask the person to list it: tiers: { execute: { network: { allow: ${JSON.stringify(hosts)} } } }`,
    },
  );
