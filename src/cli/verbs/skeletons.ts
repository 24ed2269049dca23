/** Verbs that write the beginning of a tool, a plugin or a connector; their code is loaded on demand. */
import type { Command } from 'commander';
import type { SkeletonKind } from '../skeletons/skeleton.ts';
import type { Verbs } from './verbs.ts';

export function addNewVerb(verbs: Verbs, group: Command, kind: SkeletonKind): void {
  verbs
    .addOffline('new <name>', `write a ${kind} that works, with its test, into a new folder of that name`, group)
    .action(
      verbs.ending(async (name, flags) =>
        (await import('../skeletons/skeleton.ts')).createSkeleton(kind, name, flags, verbs.callerIn(flags)),
      ),
    );
}

export function addToolVerb(verbs: Verbs): void {
  addNewVerb(verbs, verbs.addGroup('tool', 'begin a tool of your own, which is a plugin with one tool'), 'tool');
}
