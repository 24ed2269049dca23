import type { Egress } from '../../hosts/egress.ts';
import type { Previews } from '../../store/previews.ts';
import type { ToolStates } from '../../store/tool-states.ts';
import type { UndoJournal } from '../../store/undo/undo-journal.ts';
import type { PackageSettings } from '../../tools/package/settings.ts';
import type { HostDoors } from '../doors/host-doors.ts';
import type { OpeningParts } from '../doors/openings.ts';
import type { LocalServices } from '../doors/services.ts';
import type { SigningDoor } from '../doors/signing-door.ts';
import type { PermissionParts } from '../permission.ts';
import type { PreparedCalls } from '../prepared.ts';
import type { WritesByPrincipal } from '../principal-writes.ts';
import type { ToolHealth } from '../tool-health.ts';
import type { BackgroundCommands } from './background/background-commands.ts';
import type { RemoteKeys } from './keys/key-agents.ts';
import type { LearnedTools } from './learned-tools.ts';
import type { LeftNames } from './left-names.ts';
import type { ReadOnlyRunParts } from './read-only-run.ts';
import type { Runners } from './runner.ts';

export interface ExecuteParts extends ReadOnlyRunParts {
  /** The runners of the daemon's capabilities. */
  readonly runners: Runners;
  readonly egress: Egress;
  readonly remoteKeys: RemoteKeys;
  readonly doors: HostDoors;
  readonly signingDoor: Pick<SigningDoor, 'ask' | 'hasTold' | 'tell'>;
  readonly permission: PermissionParts;
  readonly toolStates: ToolStates;
  readonly undoJournal: UndoJournal;
  readonly packages: PackageSettings;
  readonly prepared: PreparedCalls;
  readonly background: BackgroundCommands;
  readonly outsideProblem: OpeningParts['outsideProblem'];
  readonly services: LocalServices;
  readonly previews: Previews;
  readonly leftNames: Pick<LeftNames, 'ask' | 'ownerOf'>;
  /** Records the start and the end of each call. */
  readonly writes: WritesByPrincipal;
  readonly health: ToolHealth;
  readonly learned: LearnedTools;
}
