/** The body of a request for one answer of a model, in the dialect of its server. */
import type { AgentProfile } from './settings.ts';

/** What the model is asked: the conversation as the agent process keeps it, and what the daemon lets it do. */
export interface ModelTurn {
  readonly system: string;
  /** Messages in the dialect of the profile. */
  readonly messages: readonly unknown[];
  /** Tools in the dialect of the profile. */
  readonly tools: readonly unknown[];
  readonly maxOutputTokens: number;
}

export function requestBody(profile: AgentProfile, turn: ModelTurn): string {
  return JSON.stringify(profile.dialect === 'openai' ? openaiBody(profile, turn) : anthropicBody(profile, turn));
}

function openaiBody(
  { model, url, temperature }: AgentProfile,
  { system, messages, tools, maxOutputTokens }: ModelTurn,
): object {
  // OpenAI itself refuses the older name for its newer models; other servers know only that one.
  const isOpenai = new URL(url).hostname === 'api.openai.com';
  return {
    model,
    messages: [{ role: 'system', content: system }, ...messages],
    ...(tools.length > 0 && { tools }),
    temperature,
    [isOpenai ? 'max_completion_tokens' : 'max_tokens']: maxOutputTokens,
    stream: true,
    stream_options: { include_usage: true },
  };
}

function anthropicBody(
  { model, temperature }: AgentProfile,
  { system, messages, tools, maxOutputTokens }: ModelTurn,
): object {
  return {
    model,
    system,
    messages,
    ...(tools.length > 0 && { tools }),
    temperature,
    max_tokens: maxOutputTokens,
    stream: true,
  };
}
