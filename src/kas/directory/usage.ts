/**
 * Counters that GitLab collects, by GitLab's names (doc/reference/tunnel-protocol.md 8.2,
 * doc/reference/gitlab-contract.md 2.5). The caller obtains a counting function once. The function never fails and
 * never waits.
 */
export interface Usage {
  counter(name: string): () => void
  /** The function counts each id once in a reporting period. */
  unique(name: string): (id: bigint) => void
  /** The function counts the same event once in a reporting period; only a few are kept per agent (`agent_id`). */
  event<E extends object>(name: string): (event: E) => void
}

/** Usage where no GitLab collects it. */
export const noUsage: Usage = {
  counter: () => () => undefined,
  unique: () => () => undefined,
  event: () => () => undefined,
}
