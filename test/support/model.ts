/** A server of model APIs on loopback that answers every request with one scripted turn, and notes which tools were offered. */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

export interface ScriptedModel extends AsyncDisposable {
  readonly url: string;
  /** Names of the tools of the last request that offered any. */
  readonly offered: () => readonly string[];
  /** Bodies of all requests. */
  readonly requests: readonly string[];
}

/** The events of a turn, by a part of the path of the API. */
export type Turns = Readonly<Record<string, (request: number) => readonly object[]>>;

const SAYS = 'DONE';
const claude = [
  { type: 'message_start', message: { id: 'm', type: 'message', role: 'assistant', content: [], usage: {} } },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: SAYS } },
  { type: 'content_block_stop', index: 0 },
  { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 1 } },
  { type: 'message_stop' },
];
const message = { type: 'message', role: 'assistant', id: 'i', content: [{ type: 'output_text', text: SAYS }] };

/** The events of the OpenAI Responses API for one item of the model. */
export const responseOf = (item: object): object[] => [
  { type: 'response.created', response: { id: 'r' } },
  { type: 'response.output_item.done', output_index: 0, item },
  {
    type: 'response.completed',
    response: { id: 'r', usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 } },
  },
];

const gemini = [
  { candidates: [{ content: { role: 'model', parts: [{ text: SAYS }] }, finishReason: 'STOP', index: 0 }] },
];
const chat = [
  { id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta: { role: 'assistant', content: SAYS } }] },
  { id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
];

const TURNS: Turns = {
  '/messages': () => claude,
  '/responses': () => responseOf(message),
  streamGenerateContent: () => gemini,
  'chat/completions': () => chat,
};

export async function startModel(turns: Turns = {}): Promise<ScriptedModel> {
  const requests: string[] = [];
  let offered: readonly string[] = [];
  const server = createServer(async (request, response) => {
    const body = await text(request);
    requests.push(body);
    const names = toolsIn(body);
    if (names.length > 0) offered = names;
    const turn = Object.entries({ ...TURNS, ...turns }).find(([path]) => request.url?.includes(path))?.[1];
    if (turn) sendEvents(response, turn(requests.length));
    else response.writeHead(404, { 'content-type': 'application/json' }).end('{}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    offered: () => offered,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function sendEvents(response: ServerResponse, events: readonly object[]): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const event of events) {
    const type = 'type' in event ? `event: ${String(event.type)}\n` : '';
    response.write(`${type}data: ${JSON.stringify(event)}\n\n`);
  }
  // Only the OpenAI chat API ends so.
  response.end(events.some((it) => 'object' in it) ? 'data: [DONE]\n\n' : '');
}

interface OfferedTool {
  readonly name?: string;
  readonly type?: string;
  readonly description?: string;
  readonly function?: { readonly name: string };
  readonly functionDeclarations?: readonly OfferedTool[];
  readonly tools?: readonly OfferedTool[];
}

/** Names of the tools in a request of any of the four APIs, also of those that Codex nests in others. */
function toolsIn(body: string): string[] {
  const { tools = [], input = [] } = (body.startsWith('{') ? JSON.parse(body) : {}) as {
    tools?: OfferedTool[];
    input?: { type?: string; tools?: OfferedTool[] }[];
  };
  const more = Array.isArray(input) ? input.filter((it) => it.type === 'additional_tools') : [];
  return [...tools, ...more.flatMap((it) => it.tools ?? [])].flatMap(namesOf);
}

const namesOf = (tool: OfferedTool): string[] => [
  ...[tool.name ?? tool.function?.name ?? (tool.functionDeclarations ? [] : tool.type) ?? []].flat(),
  ...[...(tool.functionDeclarations ?? []), ...(tool.tools ?? [])].flatMap(namesOf),
  ...[...(tool.description ?? '').matchAll(/^### `(\w+)`/gm)].map((it) => it[1] as string),
];
