/**
 * What GitLab wants counted, by GitLab's names (doc/reference/tunnel-protocol.md 8.2, doc/reference/gitlab-contract.md
 * 2.5). Who counts takes a handle once; it takes note, never fails, never waits.
 */
export interface Usage {
  counter(name: string): () => void
  /** each id counts once in a reporting period */
  unique(name: string): (id: bigint) => void
  /** the same event counts once in a reporting period; of one agent (`agent_id`) a few are kept */
  event<E extends object>(name: string): (event: E) => void
}

/** For who reports to nobody. */
export const noUsage: Usage = {
  counter: () => () => undefined,
  unique: () => () => undefined,
  event: () => () => undefined,
}
