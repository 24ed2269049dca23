/** The shapes of the protocol, as the daemon itself has them. */
import type * as z from 'zod';
import type { answers, notifications } from '../../src/wire/protocol/answers.ts';
import type { Method, Params } from '../../src/wire/protocol/messages.ts';
import type * as shapes from '../../src/wire/protocol/shapes.ts';

export type { Method, Params };
export type Answer<M extends Method> = z.output<(typeof answers)[M]>;
export type Notification = keyof typeof notifications;
export type Notice<N extends Notification> = z.output<(typeof notifications)[N]>;

/** A question has the same shape on the wire as in the store. */
export type { Approval } from '../../src/store/approvals/approval.ts';

export type CallRecord = z.output<typeof shapes.callRecord>;
export type RunningCall = z.output<typeof shapes.runningCall>;
export type CallState = z.output<typeof shapes.callState>;
export type ToolResult = z.output<typeof shapes.toolResult>;
export type Whole = Answer<'approvals.get'>;
export type Effect = Whole['whole']['effects'][number];
export type ListedCall = z.output<typeof shapes.listedCall>;
export type StageName = keyof NonNullable<CallRecord['stagesMs']>;
export type AuditEntry = z.output<typeof shapes.auditEntry>;
