/**
 * The policy's rules on paths, asked again where paths are opened: of the path as the caller wrote it, which the gateway
 * judged too, and of what it is really called, which only the one who opened it knows.
 */
import { closeSync, readlinkSync, realpathSync } from 'node:fs';
import { basename, dirname, join, normalize, relative, resolve } from 'node:path';
import { ToolError } from '../src/errors.ts';
import type { PathView } from '../src/hosts/job.ts';
import { fromRoot } from '../src/paths.ts';
import { isOrdinary, type SettingsBounds } from '../src/policy/ordinary.ts';
import { pathDecision } from '../src/policy/paths.ts';
import type { Opened } from './anchor.ts';

export type Kind = 'read' | 'write' | 'delete';

export class PathRules {
  readonly #view: PathView;
  readonly #workspace: string;
  readonly #bounds: SettingsBounds;
  /** The answer given last: the real name is mostly the one that was asked about. */
  #last: { readonly kind: Kind; readonly path: string; readonly answer: ReturnType<typeof pathDecision> } | undefined;

  /** `workspace` is absolute and without links. */
  constructor(view: PathView, workspace: string, bounds: SettingsBounds) {
    this.#bounds = bounds;
    this.#view = view;
    this.#workspace = workspace;
  }

  /**
   * Opens `path`, which lies inside the workspace, to read it, where the rules allow it by every name; what was opened by a
   * name that they don't is closed. Throws SENSITIVE_FILE, POLICY_DENIED, and what `open` throws.
   */
  open(path: string, open: () => Opened): Opened {
    this.check('read', path);
    let opened: Opened;
    try {
      opened = open();
    } catch (error) {
      // Behind a link lies a mount that hides its target: the rule is the reason, not the permissions.
      if (error instanceof ToolError && error.code === 'ACCESS_DENIED') this.check('read', path, this.#namedBy(path));
      throw error;
    }
    try {
      this.check('read', path, relative(this.#workspace, opened.realPath));
      return opened;
    } catch (error) {
      closeSync(opened.fd);
      throw error;
    }
  }

  /**
   * Throws SENSITIVE_FILE or POLICY_DENIED when a rule refuses `path`, or, where that leads elsewhere, its real name,
   * relative to the workspace. What asks about `path` itself was asked in the gateway.
   */
  check(kind: Kind, path: string, realPath?: string): void {
    const asked = this.#decide(kind, normalize(path));
    if (asked?.decision === 'deny') throw refusal(path, asked);
    const real = realPath === undefined ? undefined : this.#decide(kind, realPath || '.');
    if (real?.decision === 'deny') throw refusal(path, real);
    if (real?.decision !== 'ask' || real.id === asked?.id) return;
    throw new ToolError(
      'POLICY_DENIED',
      `\`${path}\` leads to \`${realPath}\`, about which rule \`${real.id}\` wants a person asked`,
      {
        suggestion: `Name \`${realPath}\` itself.`,
        rule: real.id,
        details: { source: real.source },
      },
    );
  }

  /**
   * Throws for what lies in `declared`, or was found from there, and what the gateway did not ask about: SENSITIVE_FILE or
   * POLICY_DENIED where a rule refuses it, or wants a person asked who was not asked about `declared` by that rule.
   */
  checkInside(kind: Kind, declared: string, realPath: string): void {
    const own = this.#decide(kind, normalize(realPath));
    if (own?.decision === 'deny') throw refusal(realPath, own);
    if (own?.decision !== 'ask' || own.id === this.#decide(kind, normalize(declared))?.id) return;
    throw new ToolError('POLICY_DENIED', `about \`${realPath}\` rule \`${own.id}\` wants a person asked`, {
      suggestion: `Name \`${realPath}\` itself.`,
      rule: own.id,
      details: { source: own.source },
    });
  }

  /** What a listing of `root` leaves alone: what is denied, and what a rule asks about that did not ask about `root` itself. */
  refusedBelow(root: string, kind: Kind = 'read'): (path: string) => boolean {
    const asked = this.#decide(kind, normalize(root));
    return (path) => {
      const own = this.#decide(kind, normalize(path));
      return own !== undefined && (own.decision === 'deny' || own.id !== asked?.id);
    };
  }

  /** The rule that does not let `path`, relative to the workspace, be read or changed unasked; undefined where none says so. */
  ruleOn(kind: Kind, path: string): string | undefined {
    return this.#decide(kind, normalize(path))?.id;
  }

  /** What rules and protections call a path of the workspace. */
  named(path: string): string {
    return fromRoot(this.#view.root ?? this.#workspace, this.#workspace, path);
  }

  #decide(kind: Kind, path: string): ReturnType<typeof pathDecision> {
    const { rules, home } = this.#view;
    const plain = path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
    if (this.#last?.kind === kind && this.#last.path === plain) return this.#last.answer;
    // Looked at here and now: what it holds may have changed since the gateway looked.
    let looked = false;
    const answer = pathDecision(rules, kind, this.named(plain), home, () => {
      looked = true;
      return isOrdinary(join(this.#workspace, plain), this.#bounds);
    });
    this.#last = looked ? undefined : { kind, path: plain, answer };
    return answer;
  }

  /** The real name of what can't be opened, as far as it can be looked up; only good for saying why it is refused. */
  #namedBy(path: string): string {
    let real = join(this.#workspace, path);
    let rest = '';
    for (let links = 0; ; ) {
      try {
        real = join(realpathSync(real), rest);
        break;
      } catch {
        // A hidden or missing part: of a link what it says, of the rest the name as it was written.
        const link = links < LINKS_MAX ? linkAt(real) : undefined;
        if (link === undefined) rest = join(basename(real), rest);
        else links += 1;
        real = link === undefined ? dirname(real) : resolve(dirname(real), link);
      }
    }
    return relative(this.#workspace, real);
  }
}

/** As in the kernel. */
const LINKS_MAX = 40;

function linkAt(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined; // EINVAL: no link. ENOENT, EACCES: none that can be seen.
  }
}

function refusal(path: string, rule: NonNullable<ReturnType<typeof pathDecision>>): ToolError {
  const code = rule.code ?? 'POLICY_DENIED';
  return new ToolError(code, `\`${path}\` is refused by rule \`${rule.id}\`: ${rule.reason}`, {
    suggestion: 'Ask the person for what you need from it.',
    rule: rule.id,
    details: { source: rule.source },
  });
}
