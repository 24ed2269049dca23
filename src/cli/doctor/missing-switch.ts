/** Names the one thing that keeps a system from building sandboxes, and the fix of that system. Pure. */
import { type ContainerKind, installCommand, type SystemFacts } from './system.ts';

/** Why sandboxes fail here. */
export interface MissingSwitch {
  readonly id:
    | 'wsl1'
    | 'bubblewrap'
    | 'no-user-namespaces'
    | 'max-user-namespaces'
    | 'unprivileged-userns-clone'
    | 'container-seccomp'
    | 'container-proc'
    | 'container-apparmor'
    | 'apparmor-nesting'
    | 'apparmor-userns';
  readonly found: string;
  readonly fix: string;
}

interface Cause {
  readonly id: MissingSwitch['id'];
  readonly applies: (facts: SystemFacts, failure: string) => boolean;
  readonly found: string;
  readonly fix: (facts: SystemFacts) => string;
}

const setting = (line: string): string =>
  `echo ${line} | sudo tee /etc/sysctl.d/90-ringfence.conf && sudo sysctl --system`;

const LOAD_PROFILE =
  'sudo cp etc/apparmor.d/bwrap /etc/apparmor.d/bwrap && sudo apparmor_parser -r /etc/apparmor.d/bwrap (the file is in the package of Ringfence)';
const DISABLE_STACKING =
  'sudo ln -s ../bwrap-userns-restrict /etc/apparmor.d/disable/ && sudo apparmor_parser -R /etc/apparmor.d/bwrap-userns-restrict';

/** Options of each engine. Kubernetes takes fields of the pod's securityContext. */
const SECCOMP_OPTION: Record<ContainerKind, string> = {
  docker: 'docker run --security-opt seccomp=seccomp.json, with examples/docker/seccomp.json',
  podman: 'podman run --security-opt seccomp=seccomp.json, with examples/docker/seccomp.json',
  kubernetes:
    'securityContext: { seccompProfile: { type: Localhost, localhostProfile: ringfence.json } }, as in examples/kubernetes',
  container: 'Let the engine use examples/docker/seccomp.json as its seccomp profile.',
};
const PROC_OPTION: Record<ContainerKind, string> = {
  docker: 'docker run --security-opt systempaths=unconfined',
  podman: 'podman run --security-opt unmask=ALL',
  kubernetes: 'securityContext: { procMount: Unmasked } and hostUsers: false, as in examples/kubernetes',
  container: 'Let the engine leave /proc unmasked.',
};
const APPARMOR_OPTION: Record<ContainerKind, string> = {
  docker: 'docker run --security-opt apparmor=unconfined',
  podman: 'podman run --security-opt apparmor=unconfined',
  kubernetes: 'securityContext: { appArmorProfile: { type: Unconfined } }, as in examples/kubernetes',
  container: 'Let the engine use no AppArmor profile, or one that allows mount and userns.',
};

const onHost = (fix: string, { container }: SystemFacts): string =>
  container === undefined ? fix : `On the machine that runs the container: ${fix}`;

/** No mount of /proc: the kernel refuses a fresh one where parts of the old one are covered. */
const PROC_REFUSED = /mount proc|mounting proc|newroot\/proc/i;
const NAMESPACE_REFUSED = /namespace|uid map|RTM_NEWADDR|not permitted|permission denied|clone|unshare/i;

/** Causes in the order in which they are judged: what rules out others comes first. */
const CAUSES: readonly Cause[] = [
  {
    id: 'wsl1',
    applies: ({ wsl }) => wsl === 1,
    found: 'WSL 1 has no Linux kernel, so nothing can be confined',
    fix: () => 'In Windows: wsl --set-version <name of the distribution> 2',
  },
  {
    id: 'bubblewrap',
    applies: ({ hasBwrap }) => !hasBwrap,
    found: 'bubblewrap is not installed',
    fix: ({ distribution }) => installCommand('bubblewrap', distribution),
  },
  {
    id: 'no-user-namespaces',
    applies: ({ userns }) => userns.max === undefined,
    found: 'the kernel has no user namespaces',
    fix: (facts) => onHost('Run a kernel with CONFIG_USER_NS.', facts),
  },
  {
    id: 'max-user-namespaces',
    applies: ({ userns }) => userns.max === '0',
    found: 'the limit for user namespaces is 0',
    fix: (facts) => onHost(setting('user.max_user_namespaces=28633'), facts),
  },
  {
    id: 'unprivileged-userns-clone',
    applies: ({ userns, isRoot }) => userns.clone === '0' && !isRoot,
    found: 'only root may create user namespaces',
    fix: (facts) => onHost(setting('kernel.unprivileged_userns_clone=1'), facts),
  },
  {
    id: 'container-proc',
    applies: ({ container, isProcMasked }, failure) =>
      container !== undefined && isProcMasked && PROC_REFUSED.test(failure),
    found: 'the container covers parts of /proc, so that no sandbox may mount its own',
    fix: ({ container = 'container' }) => PROC_OPTION[container],
  },
  {
    id: 'container-apparmor',
    applies: ({ container, profile }, failure) =>
      container !== undefined && profile !== undefined && /permission denied/i.test(failure),
    found: 'the AppArmor profile of the container forbids mounts',
    fix: ({ container = 'container' }) => APPARMOR_OPTION[container],
  },
  {
    id: 'container-seccomp',
    applies: ({ container, isFiltered }, failure) =>
      container !== undefined && isFiltered && NAMESPACE_REFUSED.test(failure),
    found: 'the seccomp filter of the container forbids namespaces',
    fix: ({ container = 'container' }) => SECCOMP_OPTION[container],
  },
  {
    id: 'apparmor-nesting',
    applies: ({ hasStackingProfile, isRoot }, failure) =>
      hasStackingProfile && !isRoot && NAMESPACE_REFUSED.test(failure),
    found: 'the AppArmor profile bwrap-userns-restrict allows one sandbox and none within it',
    fix: (facts) => onHost(`${DISABLE_STACKING} && ${LOAD_PROFILE}`, facts),
  },
  {
    id: 'apparmor-userns',
    applies: ({ userns, isRoot }, failure) =>
      !isRoot && userns.apparmor !== undefined && userns.apparmor !== '0' && NAMESPACE_REFUSED.test(failure),
    found: 'AppArmor keeps user namespaces from programs without a profile',
    fix: (facts) => onHost(LOAD_PROFILE, facts),
  },
];

/**
 * The first cause that explains `failure`: why a sandbox, or one within it, could not be built. Undefined if that is
 * empty, or nothing known explains it.
 */
export function missingSwitch(facts: SystemFacts, failure: string): MissingSwitch | undefined {
  if (failure === '') return undefined;
  const cause = CAUSES.find(({ applies }) => applies(facts, failure));
  return cause && { id: cause.id, found: cause.found, fix: cause.fix(facts) };
}
