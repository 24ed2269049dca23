/** The capabilities of a daemon, in the order in which they start: of two that bring a tool of one name, the first has it. */

import { agents } from '../services/agents/capability.ts';
import type { Capability } from '../services/capability.ts';
import { connectors } from '../services/connectors/capability.ts';
import { containers } from '../services/containers/capability.ts';
import { databases } from '../services/databases/capability.ts';
import { keyAgents } from '../services/key-agents/capability.ts';
import { plugins } from '../services/plugins/capability.ts';
import { programs } from '../services/programs/capability.ts';
import { providers } from '../services/providers/capability.ts';
import { toolchains } from '../services/toolchains/capability.ts';
import { web } from '../services/web/capability.ts';

export const capabilities: readonly Capability[] = [
  providers,
  plugins,
  connectors,
  containers,
  databases,
  agents,
  programs,
  toolchains,
  web,
  keyAgents,
];
