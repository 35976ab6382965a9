import type { AgentkHost, AgentkModule } from '../../module.ts'
import { askKubernetesVersion, Registrar } from './registrar.ts'

type Host = Pick<AgentkHost, 'api' | 'kas' | 'self' | 'clock' | 'random' | 'log'>

/** kas knows of each pod. */
export function createRegistrar({ api, kas, self, clock, random, log }: Host): AgentkModule {
  const kubernetesVersion = (signal: AbortSignal) => askKubernetesVersion(api, signal)
  const components = { kas, kubernetesVersion, clock, random, log: log('agent_registrar') }
  return { services: [new Registrar(components, { meta: self.meta, server: api.access.server })] }
}
