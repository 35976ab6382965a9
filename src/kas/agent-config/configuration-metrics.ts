import { Counter } from 'prom-client'
import type { Registry } from '../../lib/metrics.ts'

/** `turn`: the file waited for its project's turn; `time`, `memory`: it needs more than the bound, and was refused */
const limits = ['turn', 'time', 'memory'] as const
export type ConfigurationLimit = (typeof limits)[number]

export interface ConfigurationMetrics {
  /** an agent's file reached the limit */
  limited(by: ConfigurationLimit): void
}

export const noConfigurationMetrics: ConfigurationMetrics = { limited: () => undefined }

export function createConfigurationMetrics(register: Registry): ConfigurationMetrics {
  const limited = new Counter({
    name: 'kas_agent_configuration_limits_total',
    help: 'Configuration files of agents that met a limit of what reading them may cost',
    labelNames: ['limit'],
    registers: [register],
  })
  for (const limit of limits) limited.inc({ limit }, 0)
  return { limited: (limit) => limited.inc({ limit }) }
}
