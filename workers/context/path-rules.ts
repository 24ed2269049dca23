/**
 * Applies the policy's path rules again when paths are opened: to the path as the caller wrote it, which the gateway
 * checked, too, and to the real path, which is known only after opening.
 */
import { closeSync, readlinkSync, realpathSync } from 'node:fs';
import { basename, dirname, join, normalize, relative, resolve } from 'node:path';
import { ToolError } from '../../src/base/errors.ts';
import { fromRoot } from '../../src/base/paths.ts';
import type { PathView } from '../../src/hosts/job.ts';
import { pathDecision } from '../../src/policy/paths.ts';
import { isOrdinary, type SettingsBounds } from '../../src/policy/secrets/ordinary-paths.ts';
import type { OpenedPath } from './anchor.ts';

export type PathEffect = 'read' | 'write' | 'delete';

export class PathRules {
  readonly #view: PathView;
  readonly #workspace: string;
  readonly #bounds: SettingsBounds;
  /** The last answer: the real path mostly equals the path checked before. */
  #last:
    | { readonly kind: PathEffect; readonly path: string; readonly answer: ReturnType<typeof pathDecision> }
    | undefined;

  /** `workspace` is absolute and without links. */
  constructor(view: PathView, workspace: string, bounds: SettingsBounds) {
    this.#bounds = bounds;
    this.#view = view;
    this.#workspace = workspace;
  }

  /**
   * Opens `path`, inside the workspace, for reading if the rules allow each of its names; closes it again otherwise.
   * Throws SENSITIVE_FILE, POLICY_DENIED, and what `open` throws.
   */
  open(path: string, open: () => OpenedPath): OpenedPath {
    this.check('read', path);
    let opened: OpenedPath;
    try {
      opened = open();
    } catch (error) {
      // A mount may hide the target of a link: then the rule is the reason, not the permissions.
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
   * Throws SENSITIVE_FILE or POLICY_DENIED if a rule denies `path`, or its real path if that differs, relative to the
   * workspace. The gateway already asked about `ask` rules for `path` itself.
   */
  check(kind: PathEffect, path: string, realPath?: string): void {
    const asked = this.#decide(kind, normalize(path));
    if (asked?.decision === 'deny') throw refusal(path, asked);
    const real = realPath === undefined ? undefined : this.#decide(kind, realPath || '.');
    if (real?.decision === 'deny') throw refusal(path, real);
    if (real?.decision !== 'ask' || real.id === asked?.id) return;
    throw new ToolError(
      'POLICY_DENIED',
      `\`${path}\` leads to \`${realPath}\`, for which rule \`${real.id}\` requires approval by a person`,
      {
        suggestion: `Use the path \`${realPath}\` itself.`,
        rule: real.id,
        details: { source: real.source },
      },
    );
  }

  /**
   * Checks a path that lies in `declared` or was found from there, and that the gateway did not check. Throws
   * SENSITIVE_FILE or POLICY_DENIED if a rule denies it, or asks about it without having asked about `declared`.
   */
  checkInside(kind: PathEffect, declared: string, realPath: string): void {
    const own = this.#decide(kind, normalize(realPath));
    if (own?.decision === 'deny') throw refusal(realPath, own);
    if (own?.decision !== 'ask' || own.id === this.#decide(kind, normalize(declared))?.id) return;
    throw new ToolError('POLICY_DENIED', `rule \`${own.id}\` requires approval by a person for \`${realPath}\``, {
      suggestion: `Use the path \`${realPath}\` itself.`,
      rule: own.id,
      details: { source: own.source },
    });
  }

  /**
   * A test for paths that a listing of `root` leaves out: denied ones, and those that a rule asks about that did not
   * ask about `root`.
   */
  refusedBelow(root: string, kind: PathEffect = 'read'): (path: string) => boolean {
    const asked = this.#decide(kind, normalize(root));
    return (path) => {
      const own = this.#decide(kind, normalize(path));
      return own !== undefined && (own.decision === 'deny' || own.id !== asked?.id);
    };
  }

  /** The rule that denies or asks about `path`, relative to the workspace; undefined if there is none. */
  ruleOn(kind: PathEffect, path: string): string | undefined {
    return this.#decide(kind, normalize(path))?.id;
  }

  /** The path as rules and protections name it: relative to the configured workspace. */
  named(path: string): string {
    return fromRoot(this.#view.root ?? this.#workspace, this.#workspace, path);
  }

  #decide(kind: PathEffect, path: string): ReturnType<typeof pathDecision> {
    const { rules, home } = this.#view;
    const plain = path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
    if (this.#last?.kind === kind && this.#last.path === plain) return this.#last.answer;
    // The content is checked now: it may have changed since the gateway looked.
    let looked = false;
    const answer = pathDecision(rules, kind, this.named(plain), home, () => {
      looked = true;
      return isOrdinary(this.#workspace, plain, this.#bounds);
    });
    this.#last = looked ? undefined : { kind, path: plain, answer };
    return answer;
  }

  /** The real path of an entry that can't be opened, as far as it can be resolved; only good for explaining a refusal. */
  #namedBy(path: string): string {
    let real = join(this.#workspace, path);
    let rest = '';
    for (let links = 0; ; ) {
      try {
        real = join(realpathSync(real), rest);
        break;
      } catch {
        // A hidden or missing part: follow a link's text, keep any other name as written.
        const link = links < LINKS_MAX ? linkAt(real) : undefined;
        if (link === undefined) rest = join(basename(real), rest);
        else links += 1;
        real = link === undefined ? dirname(real) : resolve(dirname(real), link);
      }
    }
    return relative(this.#workspace, real);
  }
}

/** The same as in the kernel. */
const LINKS_MAX = 40;

function linkAt(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined; // EINVAL: not a link. ENOENT, EACCES: not visible.
  }
}

function refusal(path: string, rule: NonNullable<ReturnType<typeof pathDecision>>): ToolError {
  const code = rule.code ?? 'POLICY_DENIED';
  return new ToolError(code, `\`${path}\` is refused by rule \`${rule.id}\`: ${rule.reason}`, {
    suggestion: 'Ask the person for the information that you need.',
    rule: rule.id,
    details: { source: rule.source },
  });
}
