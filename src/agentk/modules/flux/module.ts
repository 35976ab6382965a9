import type { AgentkHost, AgentkModule } from '../../module.ts'
import { Flux, type FluxOptions } from './flux.ts'
import { createFluxMetrics } from './flux-metrics.ts'

type Host = Pick<AgentkHost, 'api' | 'kas' | 'configuration' | 'clock' | 'random' | 'register' | 'log'>

/** Has Flux fetch at once what was pushed to GitLab. */
export function createFlux(host: Host, options?: Partial<FluxOptions>): AgentkModule {
  const { api, kas, configuration, clock, random } = host
  const metrics = createFluxMetrics(host.register)
  const log = host.log('gitlab_flux')
  const flux = new Flux({ api, kas, configuration, metrics, log, clock, random }, options)
  return {
    lead: async (term) => {
      try {
        await flux.lead(term)
      } catch (error) {
        log.error({ error }, 'Flux is not followed any more')
      }
    },
  }
}
