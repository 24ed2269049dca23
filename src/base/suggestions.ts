/** What a caller can do about errors that say nothing of it themselves. */
import type { Code, WireError } from './errors.ts';

const SUGGESTIONS: Readonly<Record<Code, string>> = {
  TOOL_NOT_FOUND: 'List the tools with tools.list.',
  TOOL_DISABLED: 'Use another tool, or ask the person whether the policy should allow this one.',
  INPUT_INVALID: 'Correct the named parameters; tools_describe shows the form of the input.',
  ACCESS_DENIED: 'Stay inside the workspace, or ask the person for access.',
  SENSITIVE_FILE: 'Go on without it, or ask the person for the part that is needed.',
  POLICY_DENIED: 'Go on without it, or ask the person whether the policy should allow it.',
  APPROVAL_DENIED: 'Do not repeat the call; read the feedback, or ask the person what they want instead.',
  APPROVAL_REQUIRED: 'Ask the person to answer, then make the same call again.',
  APPROVAL_TIMEOUT: 'Ask the person to answer, then make the same call again.',
  APPROVAL_STALE: 'Make the call again, so that the person sees what it would do now.',
  AUTH_REQUIRED: 'Ask the person to set the secret that the message names.',
  RATE_LIMITED: 'Wait for the time in details.retryAfterMs.',
  QUEUE_FULL: 'Wait for earlier calls to end, then make the call again.',
  COST_LIMIT: 'Ask the person whether more may be spent.',
  TIMEOUT: 'Give it more time, or split it into smaller parts.',
  CPU_LIMIT: 'Split the work into smaller parts.',
  MEMORY_LIMIT: 'Split the work into smaller parts.',
  OUTPUT_LIMIT: 'Ask for less: a range, a filter, fewer results.',
  PROCESS_LIMIT: 'Start fewer programs at once.',
  FILE_LIMIT: 'Read a part of it, or work on fewer files.',
  SANDBOX_UNAVAILABLE: 'Ask the person to run: ringfence doctor.',
  SANDBOX_DENIED: 'Go on without it, or ask the person for access.',
  NOT_FOUND: 'Look for the right name: file_list, file_glob and file_search find files.',
  ALREADY_EXISTS: 'Take another name, or replace what is there if that is meant.',
  CONFLICT: 'Look at the present state, then make the call again.',
  UNSUPPORTED: 'Use another tool or another form of the input.',
  PROGRAM_MISSING: 'Ask the person to install it, or use another program.',
  UPSTREAM_FAILED: 'Check the address, and try it again later.',
  PROVIDER_UNAVAILABLE: 'Try it again later; the person sees its state in: ringfence status.',
  DEPENDENCY_CYCLE: 'Take one of the references out.',
  DEPENDENCY_FAILED: 'Mend the call that it needs, then make both again.',
  REFERENCE_UNRESOLVED: 'Look at the result of the named call for the right path.',
  CODE_ERROR: 'Mend the code at the line that the message names.',
  CANCELLED: 'Make the call again only if it is still wanted.',
  HOST_CRASHED: 'Make the call again; if it ends like this again, split it into smaller parts.',
  STORE_FAILED: 'Ask the person to run: ringfence doctor.',
  SHUTTING_DOWN: 'Make the call again when the daemon is back.',
  INTERNAL: 'Ask the person to look into the log: ringfence logs.',
};

/** The error with what a caller can do about it. */
export const withSuggestion = (error: WireError): WireError =>
  error.suggestion === undefined ? { ...error, suggestion: SUGGESTIONS[error.code] } : error;
