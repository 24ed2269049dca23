/** How long a yes holds: once, or remembered within what the daemon offers and the policy allows. */
import type { RememberScope } from '../../../src/store/approvals/approval.ts';
import { duration } from '../clock.ts';
import { fleet } from '../fleet/fleet-name.ts';
import type { Approval, Whole } from '../messages.ts';
import { TextBlock } from '../parts/text-block.tsx';

const HOUR_MS = 3_600_000;
const HOURS = [1, 2, 4, 8];

/** What the person chose; `match` absent means once. */
export interface Remembered {
  readonly match?: 'exact' | 'tool' | 'door';
  readonly scope: RememberScope['scope'];
  readonly hours: number;
}

export const ONCE: Remembered = { scope: 'session', hours: 0 };

/** The member `remember` of an answer; undefined for an answer that counts once. */
export function toRemember({ match, scope, hours }: Remembered, maxMs: number): RememberScope | undefined {
  if (match === undefined) return undefined;
  return { scope, match, ...(hours > 0 && { expiresMs: Math.min(hours * HOUR_MS, maxMs) }) };
}

/** The words of the button. */
export function approveLabel({ match, scope, hours }: Remembered): string {
  if (match === undefined) return 'Approve once';
  const where = { session: 'for this session', project: 'for this project', always: 'in all sessions' }[scope];
  return hours > 0 ? `Approve ${where} for ${hours} h` : `Approve ${where}`;
}

interface RememberProps {
  readonly approval: Approval;
  readonly whole: Whole | undefined;
  readonly chosen: Remembered;
  readonly onChoice: (it: Remembered) => void;
}

export function Remember({ approval, whole, chosen, onChoice }: RememberProps) {
  const { approvalId, door, project, remember, rememberMaxMs, impact } = approval;
  if (fleet.value !== undefined)
    return <p class="dim">An answer through the fleet counts once; to have it remembered, answer at the node.</p>;
  if (rememberMaxMs === 0 && !door) return <p class="dim">The policy forbids remembering an answer: it counts once.</p>;
  if (remember.exact === undefined && !door)
    return <p class="dim">Code in a command line can only be approved once.</p>;
  const choices = [
    { match: undefined, text: 'only this once' },
    ...(remember.exact === undefined ? [] : [{ match: 'exact' as const, text: remember.exact }]),
    ...(remember.door === undefined ? [] : [{ match: 'door' as const, text: remember.door }]),
    // A whole tool is trusted only with what can do little harm.
    ...(remember.tool !== undefined && impact.level === 'low' ? [{ match: 'tool' as const, text: remember.tool }] : []),
  ];
  return (
    <fieldset class="remember">
      <legend>What your yes covers</legend>
      {choices.map(({ match, text }) => (
        <label>
          <input
            type="radio"
            name={`covers-${approvalId}`}
            checked={chosen.match === match}
            onChange={() => onChoice(match ? { ...chosen, match } : ONCE)}
          />
          {text}
        </label>
      ))}
      {chosen.match && (
        <>
          <label>
            In{' '}
            <select
              value={chosen.scope}
              onChange={(it) => onChoice({ ...chosen, scope: it.currentTarget.value as Remembered['scope'] })}
            >
              <option value="session">this session</option>
              {!door && <option value="always">all sessions</option>}
              {project !== undefined && <option value="project">this project</option>}
            </select>
          </label>
          <label>
            For{' '}
            <select
              value={String(chosen.hours)}
              onChange={(it) => onChoice({ ...chosen, hours: Number(it.currentTarget.value) })}
            >
              <option value="0">
                {door ? 'until it is revoked' : `as long as the policy allows (${duration(rememberMaxMs)})`}
              </option>
              {HOURS.filter((it) => it * HOUR_MS < rememberMaxMs).map((it) => (
                <option value={String(it)}>{it} h</option>
              ))}
            </select>
          </label>
        </>
      )}
      {chosen.scope === 'always' && whole?.proposedRule !== undefined && <Proposal rule={whole.proposedRule} />}
    </fieldset>
  );
}

function Proposal({ rule }: { rule: string }) {
  return (
    <div>
      <p>To allow it for good, put this rule into your policy file:</p>
      <TextBlock label="Proposed rule">{rule}</TextBlock>
      <button type="button" onClick={() => void navigator.clipboard.writeText(rule)}>
        Copy the rule
      </button>
    </div>
  );
}
