/** Tools that agents know by name and that a person has to set up first. */

const CONNECTORS: Readonly<Record<string, readonly string[]>> = {
  github: ['create_github_issue', 'github_create_issue', 'github_create_pr', 'create_pr'],
  sendgrid: ['sendgrid_send_email', 'send_email'],
  slack: ['slack_send_notification', 'slack_post_message'],
  stripe: ['stripe_create_payment'],
  vercel: ['vercel_deploy', 'deploy_to_production'],
  webhook: ['send_notification'],
};

/** Names of tools that presets of connectors bring, each with its preset. */
export const CONNECTOR_OF: ReadonlyMap<string, string> = new Map(
  Object.entries(CONNECTORS).flatMap(([connector, names]) => names.map((it) => [it, connector] as const)),
);

/** What a person does so that a tool of this name is there; undefined for any other name. */
export function setUpOf(name: string): string | undefined {
  const connector = CONNECTOR_OF.get(name) ?? /^([a-z]+)__/.exec(name)?.[1];
  if (connector !== undefined && Object.hasOwn(CONNECTORS, connector))
    return `The connector ${connector} brings it; ask the person to run: ringfence connector add ${connector}`;
  if (name !== 'task' && name !== 'task_delegate') return undefined;
  return 'It needs a model; ask the person to add one to config.yaml, under the key `agents`.';
}
