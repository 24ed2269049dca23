/** The operation of a connector that a call of a tool runs. */
export interface Connected {
  readonly connector: string;
  readonly operation: string;
  /** Hash of the connector's files: another connector's operation is another tool. */
  readonly digest: string;
}

/** The credentials that a service wants of each call; no agent sees them. */
export interface ToolAuth {
  readonly type: 'api_key' | 'basic_auth' | 'bearer_token' | 'oauth';
  readonly required: true;
  /** Name of the secret: `ringfence secret set NAME`. */
  readonly configKey: string;
  /** Page on which a person gets the secret. */
  readonly setupUrl?: string | undefined;
  readonly status: 'configured' | 'missing';
}

/** For tools of services. */
export interface ServiceTerms {
  auth?(): ToolAuth;
  readonly cost?: ToolCost;
}

export interface ToolCost {
  readonly model: 'free' | 'usage_based';
  /** US dollars a call, without what depends on its input. */
  readonly estimatedCost?: number;
  /** Page on which a person sees the charges. */
  readonly billingUrl?: string | undefined;
  /** Calls a month that the service gives away. */
  readonly freeTierLimit?: number | undefined;
}
