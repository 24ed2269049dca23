/** Runs a call of `docker_run`: finds the image, has a person asked before it is pulled, unpacks it, and leaves the rest to the host. */
import { statSync } from 'node:fs';
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import type { HostDoors } from '../../pipeline/doors/host-doors.ts';
import { networkOf } from '../../pipeline/execute/bounds.ts';
import { inTime } from '../../pipeline/execute/read-only-run.ts';
import type { Runner } from '../../pipeline/execute/runner.ts';
import type { ClearedCall } from '../../pipeline/stage.ts';
import { refusedName, toHostName } from '../../policy/network.ts';
import type { DoorAnswer } from '../../sandbox/egress/messages.ts';
import type { ImageToRun } from '../../tools/runs.ts';
import { Engine, type FoundImage } from './engine.ts';
import { Images } from './images.ts';

export interface ContainerParts {
  readonly stateDir: string;
  readonly limits: Limits;
  readonly powers: Powers;
  readonly doors: HostDoors;
  /** Variables of the engine. */
  readonly env: Readonly<Record<string, string>>;
}

export function containerRunner(parts: ContainerParts): Runner<'containers'> {
  const images = new Images(parts.stateDir, parts.powers);
  let cleaned: Promise<void> | undefined;

  async function prepare(name: string, call: ClearedCall): Promise<ImageToRun> {
    // Commands have the rights of the workspace's owner, whom the daemon's folder of state lets see nothing.
    if (statSync(call.workspace).uid !== statSync(parts.stateDir).uid)
      throw new ToolError(
        'UNSUPPORTED',
        'the workspace belongs to another user than the daemon, who can see no image',
        {
          suggestion: 'Ask the person to run a daemon as the owner of the workspace.',
        },
      );
    const registry = registryOf(name);
    const { signal } = call.controller;
    const engine = await Engine.find(parts, signal);
    cleaned ??= engine.clean();
    await cleaned;
    const found = (await engine.image(name, signal)) ?? (await pulled(name, { registry, engine, call, parts }));
    const { env, entrypoint, command, volumes } = found;
    return { folder: await images.unpacked(found, engine, signal), env, entrypoint, command, volumes };
  }

  return {
    run: (runs, call, hooks) => {
      const { image } = runs.request(call.checked.input as never);
      return inTime(call, parts, () => prepare(image, call)).then(hooks.inHost);
    },
  };
}

/** Pulls an image through the door of its registry. Throws ACCESS_DENIED, UPSTREAM_FAILED. */
async function pulled(
  name: string,
  { registry, engine, call, parts }: { registry: Registry; engine: Engine; call: ClearedCall; parts: ContainerParts },
): Promise<FoundImage> {
  const to = { host: registry.host, port: registry.port };
  const isListed = refusedName(networkOf(call.policyNow()) ?? [[]], to) === undefined;
  const answer = isListed ? undefined : await parts.doors.of(call, 'execute')?.answer({ kind: 'host', ...to, sent: 0 });
  if (!isListed && !(answer && 'open' in answer))
    throw new ToolError('ACCESS_DENIED', `the image ${name} is not on this machine, and ${notPulled(answer)}`, {
      suggestion: `Ask the person to pull it (\`podman pull ${registry.name}\`), or to add \`${to.host}:${to.port}\` to tiers.execute.network.allow in the policy.`,
    });
  const { signal } = call.controller;
  await engine.pull(registry.name, signal);
  const found = await engine.image(registry.name, signal);
  if (found) return found;
  throw new ToolError('UPSTREAM_FAILED', `the registry gave no image ${registry.name}`, {
    suggestion: 'Look at the name and the tag.',
  });
}

const notPulled = (answer: DoorAnswer | undefined): string =>
  answer && 'refused' in answer ? answer.refused : 'the policy has nobody asked about registries';

interface Registry {
  readonly host: string;
  readonly port: number;
  /** The image by its whole name. */
  readonly name: string;
}

/** The registry of an image, and the image by its whole name: without a host it is Docker's. Throws INPUT_INVALID. */
function registryOf(image: string): Registry {
  const [first = '', ...rest] = image.split('/');
  if (rest.length === 0 || !/[.:]|^localhost$/.test(first)) {
    const path = rest.length === 0 ? `library/${image}` : image;
    return { host: 'registry-1.docker.io', port: 443, name: `docker.io/${path}` };
  }
  const [, name = '', port] = /^([^:]*)(?::(\d{1,5}))?$/.exec(first) ?? [];
  const host = toHostName(name);
  // Also `docker-archive:/FILE` and its kin, by which an engine would read files of the machine.
  if (host === undefined || Number(port ?? 1) > 65_535)
    throw new ToolError('INPUT_INVALID', `${first} is no name of a registry`, {
      suggestion: 'Write the image as `HOST/PATH:TAG`, or as `NAME:TAG` for one of Docker Hub.',
    });
  // Docker Hub serves images from another host than the one in their names.
  return { host: host === 'docker.io' ? 'registry-1.docker.io' : host, port: Number(port ?? 443), name: image };
}
