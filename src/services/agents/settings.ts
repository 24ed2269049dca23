/** The key `agents` of config.yaml: the models that sub-agents talk to. Agents choose a profile by its name, never a URL. */
import * as z from 'zod';
import { parseAddress } from '../../policy/address.ts';
import { toolPatterns } from '../../policy/modes.ts';
import { type NetworkLayer, ruleOfServer } from '../../policy/network.ts';
import { secretName } from '../secrets/secret-files.ts';
import { problemOfTransport } from '../secrets/secrets.ts';

const profileName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,31}$/, 'takes up to 32 lower-case letters, digits and dashes');

/** Dollars for a million tokens. */
const price = z.number().min(0).max(100_000);

const profile = z
  .strictObject({
    dialect: z
      .enum(['openai', 'anthropic'])
      .describe(
        '`openai`: chat completions, as OpenAI, Ollama, llama.cpp, vLLM and OpenRouter serve them; `anthropic`: messages.',
      ),
    url: z
      .url({ protocol: /^https?$/ })
      .max(2048)
      .refine((it) => !/[?#]/.test(it), 'takes no query and no fragment')
      .refine((it) => URL.parse(it)?.username === '', 'holds no name or password; use secret')
      .describe('Base URL of the API with its version, such as `https://api.anthropic.com/v1`.'),
    model: z.string().min(1).max(256).describe('Name of the model.'),
    secret: secretName
      .optional()
      .describe('Name of the secret with the key: `ringfence secret set NAME`. Default: none.'),
    pricesUsdPerMillion: z
      .strictObject({ input: price, output: price })
      .optional()
      .describe('Dollars for a million tokens. Without them a budget in dollars is refused.'),
    temperature: z
      .number()
      .min(0)
      .max(2)
      .optional()
      .describe('How freely it answers, such as 0.2; sent only if given, since newer models refuse it.'),
    maxOutputTokens: z.int().min(1).max(1_000_000).default(4096).describe('Most tokens of one answer.'),
    instructions: z.string().min(1).max(32_768).optional().describe('What the model is told before each task.'),
    tools: toolPatterns.optional().describe('The only tools of the sub-agent, by names in which `*` matches anything.'),
    policy: z.string().min(1).max(4096).optional().describe('A policy that narrows: a built-in name or a file.'),
    mode: z.string().min(1).max(64).optional().describe('A mode that narrows.'),
    private: z
      .boolean()
      .optional()
      .describe(
        'Whether the host may have an address of this machine or its networks. Default: if `url` names an address.',
      ),
  })
  .superRefine(({ url, secret }, context) => {
    if (!URL.canParse(url)) return;
    const problem =
      (secret === undefined ? undefined : problemOfTransport(new URL(url))) ?? problemOfHost(new URL(url));
    if (problem !== undefined) context.addIssue({ code: 'custom', path: ['url'], message: problem });
  });

export const agentsSchema = z
  .record(profileName, profile)
  .refine((it) => Object.keys(it).length <= 32, 'must name at most 32 profiles');

/** A model, how it is reached, and what narrows the sub-agents that it leads. */
export interface AgentProfile extends Omit<z.output<typeof profile>, 'private'> {
  readonly name: string;
  /** The only destination of its requests. */
  readonly network: NetworkLayer;
}

/** The profiles of the config, with policies by built-in name or absolute path. */
export const toAgentProfiles = (
  given: z.output<typeof agentsSchema>,
  toPolicy: (nameOrPath: string) => string,
): Readonly<Record<string, AgentProfile>> =>
  Object.fromEntries(
    Object.entries(given).map(([name, { private: isPrivate, policy, ...rest }]) => [
      name,
      {
        name,
        ...rest,
        policy: policy && toPolicy(policy),
        network: networkOf(new URL(rest.url), isPrivate),
      },
    ]),
  );

function problemOfHost(url: URL): string | undefined {
  try {
    networkOf(url, undefined);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** An address in the URL means that very server; a name may come to mean another one, which the operator may not have meant. */
function networkOf(url: URL, isPrivate: boolean | undefined): NetworkLayer {
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const isLocal = parseAddress(host) !== undefined || host === 'localhost';
  return [ruleOfServer(url, isPrivate ?? isLocal)];
}
