/** The list of tools for MCP clients, and the batch tool that only MCP has. */

import type { Tool as ListedTool } from '@modelcontextprotocol/server';
import * as z from 'zod';
import { RpcError } from '../../base/errors.ts';
import { matchPieces } from '../../base/text/glob.ts';
import type { Session } from '../../gateway/session.ts';
import { shortList, visibleTools } from '../../gateway/tool-list.ts';
import { decideTool } from '../../policy/decide.ts';
import type { Policy } from '../../policy/schema.ts';
import { toPortable, toShort } from '../../tools/portable.ts';
import { rare } from '../../tools/rare-parameters.ts';
import { toFormat, toToolInfo } from '../../tools/registry.ts';
import type { Tool } from '../../tools/tool.ts';
import { withUsualKeys } from '../../wire/protocol/messages.ts';

/** A client's choice of tools; narrows the list, never widens it. */
export interface ToolChoice {
  /** Names, in which `*` stands for anything; `default`; `all`. */
  readonly tools: readonly string[];
  readonly readOnly: boolean;
}

export const BATCH = 'ringfence_batch';

/** Input of the batch tool. MCP clients make calls one after another; this lets them make several at once. */
export const batchInput = z.strictObject({
  calls: z
    .array(
      z.preprocess(
        withUsualKeys,
        z.strictObject({
          id: z.string().describe('Unique name.'),
          tool: z.string().describe('Any other tool.'),
          input: z.looseObject({}).describe('Its input.'),
          dependsOn: z.array(z.string()).optional().describe('Ids that must succeed first.'),
        }),
      ),
    )
    .describe('In any order.'),
  failFast: z.boolean().optional().describe('Start no more calls once one fails.'),
  concurrency: rare(z.int().optional().describe('Calls that run at once.')),
  timeoutMs: rare(z.int().optional().describe('Of the whole batch, in milliseconds.')),
});

const BATCH_SUMMARY =
  'Make several calls at once, in parallel as far as their files and `dependsOn` allow, and get all results. Use it wherever you need not judge one result before the next call. ' +
  'A string `${id.field}` in an input is a value of an earlier result: file_read `content`, file_list `entries[0].path`, file_glob `paths[0]`, file_grep `matches[0].file`, terminal_execute `stdout`.';

/** Left out of short lists: clients have their own to-do lists, and branches are rarely created. */
const LEFT_OUT: ReadonlySet<string> = new Set(['todo_read', 'todo_write', 'git_branch']);
/** Listed although other lists leave it out, since clients that make one call at a time gain most from it. */
const SHOWN: ReadonlySet<string> = new Set(['code_run']);

const isSaid = (name: string, pattern: string): boolean => matchPieces(pattern.split('*'), name);

/** Patterns apart from `default` and `all`. */
const patternsOf = ({ tools }: ToolChoice): readonly string[] => tools.filter((it) => it !== 'default' && it !== 'all');

/** The filter for the session's tools; undefined means all. */
export function partOf(choice: ToolChoice): ((tool: Tool) => boolean) | undefined {
  const patterns = patternsOf(choice);
  const isAny = patterns.length === 0 || patterns.length < choice.tools.length;
  if (isAny && !choice.readOnly) return undefined;
  return ({ name, tier }) =>
    (!choice.readOnly || tier === 'read_only') && (isAny || patterns.some((it) => isSaid(name, it)));
}

/** Lists by policy and toolset; both are never changed, only replaced. */
export class ToolLists {
  readonly #made = new WeakMap<Policy, WeakMap<object, Map<string, ListedTool[]>>>();

  /**
   * The tools of a session, always in the same order and identical byte for byte. Throws RpcError INVALID_PARAMS if the chosen names match
   * no tool.
   */
  listFor(session: Session, choice: ToolChoice): ListedTool[] {
    const tools = this.#listed(session, choice);
    if (tools.length > 0 || patternsOf(choice).length === 0) return tools;
    const which = choice.readOnly ? 'tool that only reads' : 'tool';
    const names = patternsOf(choice).join(', ').slice(0, 256);
    throw new RpcError('INVALID_PARAMS', `no ${which} of this session is named ${names}; see: ringfence tools`);
  }

  #listed(session: Session, choice: ToolChoice): ListedTool[] {
    const policy = session.policy();
    const byToolset = this.#made.get(policy) ?? new WeakMap<object, Map<string, ListedTool[]>>();
    this.#made.set(policy, byToolset);
    const { toolset } = session.options;
    const lists = byToolset.get(toolset) ?? new Map<string, ListedTool[]>();
    byToolset.set(toolset, lists);
    const key = JSON.stringify(choice);
    const known = lists.get(key);
    if (known) return known;
    const list = listOf(session, policy, choice);
    if (lists.size < LISTS_MAX) lists.set(key, list);
    return list;
  }
}

/** Most lists cached for one policy and toolset, since clients determine the choices. */
const LISTS_MAX = 64;

function listOf(session: Session, policy: Policy, choice: ToolChoice): ListedTool[] {
  const isPart = partOf(choice);
  const isDefault = !choice.tools.includes('all') && patternsOf(choice).length === 0;
  const isUsual = (it: Tool) => SHOWN.has(it.name) || (!it.isExtra && !LEFT_OUT.has(it.name));
  const wanted = visibleTools(session).filter((it) => isPart?.(it) ?? true);
  const tools = isDefault ? shortList(wanted, session, isUsual) : wanted;
  const listed = tools.map((it) => toFormat(toToolInfo(it, decideTool(policy, it)), 'mcp') as ListedTool);
  const patterns = patternsOf(choice);
  const withBatch = tools.length > 1 && (patterns.length === 0 || patterns.some((it) => isSaid(BATCH, it)));
  return withBatch ? [...listed, batchTool(tools)] : listed;
}

/** The batch tool; its annotations combine those of the listed tools. */
function batchTool(tools: readonly Tool[]): ListedTool {
  const { $schema: _, ...schema } = z.toJSONSchema(batchInput, {
    io: 'input',
    // Replaces empty schemas, which some clients reject, by `true`.
    override: ({ jsonSchema: it }) => {
      if (typeof it.additionalProperties === 'object') it.additionalProperties = true;
    },
  });
  const readOnly = tools.every((it) => it.tier === 'read_only');
  return {
    name: BATCH,
    title: 'Several calls at once',
    description: BATCH_SUMMARY,
    inputSchema: toPortable(toShort(schema)) as ListedTool['inputSchema'],
    annotations: {
      readOnlyHint: readOnly,
      destructiveHint: !readOnly,
      idempotentHint: readOnly,
      openWorldHint: tools.some((it) => it.tier === 'execute' || it.tier === 'external_api'),
    },
  };
}
