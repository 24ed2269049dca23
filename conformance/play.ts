/** What the cases of the conformance kit have in common: a session that is open, answers, and what is expected of a client. */
import { isDeepStrictEqual } from 'node:util';
import { defaultLimits } from '../src/base/limits.ts';
import { pause, systemPowers } from '../src/base/powers.ts';
import type { ClientProgram } from './client-program.ts';
import { expectThat, type PlayedConnection, type PlayedServer, type Request } from './played-server.ts';

export interface Stage {
  readonly server: PlayedServer;
  readonly client: ClientProgram;
}

export interface Case {
  /** Area and name, such as `framing/two-in-one-piece`. */
  readonly name: string;
  /** What the client must do, for people. */
  readonly rule: string;
  play(stage: Stage): Promise<void>;
}

/** How long a client is watched for what it must not do, in milliseconds. */
export const WATCH_MS = 700;
export const watched = (): Promise<void> => pause(WATCH_MS, systemPowers());
export const SESSION = { id: 'conform-session', secret: 'conform-secret' };
export const RPC = { invalidParams: -32602, forbidden: -32004, versionUnsupported: -32005, overloaded: -32006 };

/** The answer to a hello. */
export const helloAnswer = (
  over: { resumeMs?: number | undefined; id?: string; resumed?: unknown; frameBytesMax?: number } = {},
) => ({
  protocol: 1,
  server: { name: 'ringfence-conform', version: '1' },
  session: {
    ...SESSION,
    id: over.id ?? SESSION.id,
    role: 'agent',
    workspace: '/conform',
    policy: 'default',
    toolset: ['file_read'],
    resumeMs: over.resumeMs ?? 0,
    resumed: over.resumed,
  },
  confinement: { level: 'A', backend: 'bubblewrap', cgroup: 'v2', missing: [] },
  limits: { frameBytesMax: over.frameBytesMax ?? defaultLimits.frameBytesMax },
});

const METADATA = {
  durationMs: 1,
  queuedMs: 0,
  cached: false,
  retriesAttempted: 0,
  timestamp: '2026-01-01T00:00:00.000Z',
  undo: 'none',
  resources: { cpuMs: 1, outputBytes: 0, verdict: 'within', enforcedBy: 'none' },
};

/** A successful ToolResult for a tools.call. */
export const success = (call: Request, data: unknown) => ({
  callId: callIdOf(call),
  tool: call.params.tool,
  success: true,
  data,
  metadata: METADATA,
});

export const failure = (call: Request, code: string, category: string) => ({
  callId: callIdOf(call),
  tool: call.params.tool,
  success: false,
  error: { code, category, message: `played: ${code}`, recoverable: false, layer: 'daemon' },
  metadata: METADATA,
});

export function callIdOf({ params }: Request): string {
  const { callId } = (params.options ?? {}) as { callId?: unknown };
  expectThat(
    typeof callId === 'string' && callId !== '',
    'tools.call needs options.callId, or it can be neither cancelled nor resumed',
  );
  return callId;
}

/** Connects the client and answers its hello, which is checked. */
export async function open(
  { server, client }: Stage,
  settings: { resumeMs?: number; frameBytesMax?: number } = {},
): Promise<PlayedConnection> {
  const { resumeMs, ...limits } = settings;
  client.connect(resumeMs === undefined ? {} : { resumeMs });
  const line = await server.connection();
  const hello = await line.request('hello');
  const {
    protocol,
    client: name,
    resume,
  } = hello.params as { protocol?: unknown; client?: Record<string, unknown>; resume?: unknown };
  expectThat(protocol === 1, `hello.protocol must be 1, and not ${JSON.stringify(protocol)}`);
  expectThat(
    typeof name?.name === 'string' && typeof name.version === 'string',
    'hello.client must be {name, version}, both strings',
  );
  expectThat(resume === undefined, 'the first hello has no resume');
  if (resumeMs !== undefined)
    expectThat(hello.params.resumeMs === resumeMs, `hello.resumeMs must be ${resumeMs}, as "connect" said`);
  line.answer(hello, helloAnswer({ resumeMs, ...limits }));
  const { connected, failed } = await client.outcome('connect');
  expectThat(connected === true, `"connect" failed: ${failed?.message ?? 'without a message'}`);
  return line;
}

/** Opens a session and has the client make one call, `a`. */
export async function openWithCall(
  stage: Stage,
  settings: Parameters<typeof open>[1] = {},
): Promise<{ line: PlayedConnection; call: Request }> {
  const line = await open(stage, settings);
  stage.client.call('a');
  return { line, call: await line.request('tools.call') };
}

/** Shows that the client still works: one more call, to its result. */
export async function works(line: PlayedConnection, client: ClientProgram, name = 'after'): Promise<void> {
  client.call(name);
  const call = await line.request('tools.call');
  line.answer(call, success(call, { name }));
  await client.result(name);
}

export function expectData(result: Record<string, unknown>, data: unknown): void {
  expectThat(
    isDeepStrictEqual(result.data, data),
    `the result's data should be ${JSON.stringify(data)}, and not ${JSON.stringify(result.data)}`.slice(0, 500),
  );
}
