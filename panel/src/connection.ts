/** The connection to the daemon: its public protocol as JSON over a WebSocket, opened again when it breaks. */
import { signal } from '@preact/signals';
import type { FleetAnswers, FleetMethod } from '../../src/cli/fleet/panel/messages.ts';
import { fleet } from './fleet/fleet-name.ts';
import type { Answer, Method, Notice, Notification, Params } from './messages.ts';
import { forgetPage, NotSignedIn, ticket } from './sign-in.ts';

/** Milliseconds before the first and the last of the attempts to connect again. */
const RETRY_MS = { first: 250, last: 5_000 };
const UNAUTHENTICATED = -32_003;
const PROTOCOL = 'ringfence.v1.json';

export type Link = 'connecting' | 'open' | 'lost' | 'signed out';
export const link = signal<Link>('connecting');
/** Why this page is not signed in, where that is known. */
export const signInProblem = signal<string | undefined>(undefined);
const ENDED = 'The daemon that served this page has ended or was restarted, or an operator signed the page out.';

/** The error of a request that the daemon refused. */
export class RequestError extends Error {
  readonly code: number;
  /** What the protocol says of the error beside its message. */
  readonly data: Readonly<Record<string, unknown>>;

  constructor({ code, message, data = {} }: { code: number; message: string; data?: Record<string, unknown> }) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** The error of a request whose answer never came. */
export class ConnectionLost extends Error {
  constructor() {
    super('the connection to the daemon broke before it answered');
  }
}

interface Waiter {
  resolve(result: unknown): void;
  reject(error: Error): void;
}

interface Message {
  readonly id?: number;
  readonly result?: unknown;
  readonly error?: ConstructorParameters<typeof RequestError>[0];
  readonly method?: string;
  readonly params?: unknown;
}

const waiting = new Map<number, Waiter>();
const listeners = new Map<string, ((params: never) => void)[]>();
let socket: WebSocket | undefined;
let lastId = 0;
let retryMs = RETRY_MS.first;

/** Makes a request. Rejects with RequestError, or with ConnectionLost if the answer did not come. */
export const request = <M extends Method>(method: M, params: object = {}): Promise<Answer<M>> =>
  send(method, params) as Promise<Answer<M>>;

/** The same for what only the panel of a fleet answers. */
export const requestFleet = <M extends FleetMethod>(method: M, params: object = {}): Promise<FleetAnswers[M]> =>
  send(method, params) as Promise<FleetAnswers[M]>;

function send(method: string, params: object): Promise<unknown> {
  const open = socket;
  if (!open || open.readyState !== WebSocket.OPEN) return Promise.reject(new ConnectionLost());
  const id = ++lastId;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject });
    open.send(JSON.stringify({ id, method, params }));
  });
}

/**
 * Makes one request in a session of another workspace, over a connection of its own. Rejects with RequestError, or with
 * ConnectionLost if the answer did not come.
 */
export function requestIn<M extends Method>(workspace: string, method: M, params: object): Promise<Answer<M>> {
  const own = new WebSocket(`ws://${location.host}/v1`, PROTOCOL);
  const answered = new Promise<Answer<M>>((resolve, reject) => {
    const greet = async () => {
      const hello = { ...helloOf((await ticket()) ?? ''), workspace };
      own.send(JSON.stringify({ id: 1, method: 'hello', params: hello }));
    };
    own.onopen = () => void greet().catch(() => own.close());
    own.onclose = () => reject(new ConnectionLost());
    own.onmessage = ({ data }) => {
      const { id, result, error } = JSON.parse(data as string) as Message;
      if (error) reject(new RequestError(error));
      else if (id === 1) own.send(JSON.stringify({ id: 2, method, params }));
      else if (id === 2) resolve(result as Answer<M>);
    };
  });
  return answered.finally(() => own.close());
}

/** Calls `hear` for each notification with this name. */
export function onNotice<N extends Notification>(name: N, hear: (params: Notice<N>) => void): void {
  listeners.set(name, [...(listeners.get(name) ?? []), hear]);
}

/** Connects, now and again whenever the connection breaks; calls `opened` each time that the daemon has accepted it. */
export async function connect(opened: () => Promise<void>): Promise<void> {
  let proof: string | undefined;
  try {
    proof = await ticket();
  } catch (error) {
    if (!(error instanceof NotSignedIn)) return connectLater(opened);
    signOut();
    return;
  }
  if (proof === undefined) {
    link.value = 'signed out';
    return;
  }
  const token = proof;
  const opening = new WebSocket(`ws://${location.host}/v1`, PROTOCOL);
  socket = opening;
  opening.onmessage = ({ data }) => receive(JSON.parse(data as string) as Message);
  opening.onopen = () => void greet(token, opened);
  opening.onclose = () => {
    for (const it of waiting.values()) it.reject(new ConnectionLost());
    waiting.clear();
    if (link.value !== 'signed out') connectLater(opened);
  };
}

function signOut(): void {
  forgetPage();
  signInProblem.value = ENDED;
  link.value = 'signed out';
}

function connectLater(opened: () => Promise<void>): void {
  link.value = 'lost';
  setTimeout(() => void connect(opened), retryMs);
  retryMs = Math.min(retryMs * 2, RETRY_MS.last);
}

const helloOf = (token: string): Omit<Params<'hello'>, 'resumeMs'> => ({
  protocol: 1,
  client: { name: 'ringfence-panel', version: '1' },
  role: 'operator',
  token,
});

async function greet(token: string, opened: () => Promise<void>): Promise<void> {
  try {
    const greeting = (await request('hello', helloOf(token))) as { readonly fleet?: string };
    fleet.value = greeting.fleet;
    await opened();
    retryMs = RETRY_MS.first;
    link.value = 'open';
  } catch (error) {
    if (error instanceof RequestError && error.code === UNAUTHENTICATED) signOut();
    socket?.close();
  }
}

function receive({ id, result, error, method, params }: Message): void {
  if (method !== undefined) {
    for (const hear of listeners.get(method) ?? []) hear(params as never);
    return;
  }
  const waiter = waiting.get(id as number);
  waiting.delete(id as number);
  if (error) waiter?.reject(new RequestError(error));
  else waiter?.resolve(result);
}
