// A model that follows a script, in place of a real one: it answers as the Anthropic Messages API does.
import type { AnthropicTool } from 'ringfence/client';

export interface ToolUse {
  readonly type: 'tool_use';
  readonly id: string;
  readonly name: string;
  readonly input: object;
}
export type Block = ToolUse | { readonly type: 'text'; readonly text: string };
export interface Message {
  readonly role: 'user' | 'assistant';
  readonly content: unknown;
}

let calls = 0;
const use = (name: string, input: object): ToolUse => ({ type: 'tool_use', id: `call-${++calls}`, name, input });
const test = () => use('terminal_execute', { command: 'python3 -m unittest' });

const SCRIPT: readonly (() => Block[])[] = [
  () => [test(), use('file_read', { path: 'sum.py' })],
  () => [use('file_edit', { path: 'sum.py', operations: [{ type: 'replace', search: 'a - b', replace: 'a + b' }] })],
  () => [test()],
  () => [{ type: 'text', text: 'sum.py subtracted; now it adds, and the tests pass.' }],
];

/** With a real model: `(await anthropic.messages.create({ model, max_tokens, messages, tools })).content`. */
export async function reply(messages: readonly Message[], _tools: readonly AnthropicTool[]): Promise<Block[]> {
  const turn = messages.filter((it) => it.role === 'assistant').length;
  return SCRIPT[turn]?.() ?? [];
}
