import type { KasConfig } from './kas-schema.ts'

/** Time beyond the graces of the configuration for running work to end in order. ms */
const stopMarginMs = 10_000

/**
 * Returns the most that a stop may take: the longest listen grace, since all servers leave at once, and the shutdown
 * grace. ms
 */
export function stopPatienceMs({ agent, api, private_api }: Pick<KasConfig, 'agent' | 'api' | 'private_api'>): number {
  const kubernetes = agent.kubernetes_api?.listen
  const listens = [agent.listen, api.listen, private_api.listen, kubernetes]
  const listenMs = Math.max(...listens.map((listen) => listen?.listen_grace_period ?? 0))
  return listenMs + (kubernetes?.shutdown_grace_period ?? 0) + stopMarginMs
}
