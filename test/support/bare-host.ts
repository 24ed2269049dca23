/** Starts real tier hosts without a sandbox, for tests of what the gateway does with them. */
import { spawn } from 'node:child_process';
import type { Limits } from '../../src/base/limits.ts';
import type { Powers } from '../../src/base/powers.ts';
import { hostProgram } from '../../src/base/runtime.ts';
import { Host, type HostOptions } from '../../src/hosts/host.ts';
import type { HostKey } from '../../src/hosts/host-masks.ts';
import { shapeOf } from '../../src/hosts/shape.ts';

/** Starts the host of a key; `change` replaces parts of its setup. */
export function startBareHost(
  { tier, workspace, view }: HostKey,
  limits: Limits,
  powers: Powers,
  change: Partial<HostOptions['setup']> = {},
): Host {
  const [command = '', ...args] = hostProgram;
  return new Host({
    tier,
    workspace,
    limits,
    powers,
    setup: { tier, workspace, view, limits, ...change },
    threads: shapeOf(tier, limits),
    start: (stdio) => ({ child: spawn(command, args, { stdio, env: {} }), assertInPlace() {} }),
  });
}
