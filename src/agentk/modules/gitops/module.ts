import { Listeners } from '../../../lib/listeners.ts'
import { driftFeature } from '../../../proto/gitops/features.ts'
import type { Term } from '../../election/terms.ts'
import { WrittenRules } from '../../health/custom/written-rules.ts'
import type { AgentkHost, AgentkModule } from '../../module.ts'
import type { Serve } from '../../tunnels/serve.ts'
import { createGitopsMetrics } from './state/gitops-metrics.ts'

type Host = Pick<
  AgentkHost,
  | 'api'
  | 'identities'
  | 'kas'
  | 'configuration'
  | 'self'
  | 'tracer'
  | 'clock'
  | 'serverClock'
  | 'random'
  | 'register'
  | 'log'
>

export interface GitopsModuleOptions {
  /** folders of the rendering programs, in the format of PATH */
  readonly path: string
  /** users' rules of health; absent: there are none */
  readonly written?: WrittenRules
}

/** Applies the manifests of projects to the cluster (doc/guide/gitops.md). Its code is loaded once a source is configured. */
export function createGitops(host: Host, { path, written = new WrittenRules() }: GitopsModuleOptions): AgentkModule {
  const { api, identities, kas, configuration, self, tracer, clock, serverClock, random, register } = host
  const metrics = createGitopsMetrics(register)
  const block = configuration.block('gitops', (json) => json)
  const listeners = new Listeners()
  configuration.onChange(() => listeners.notify())
  const onBlock = (listener: () => void) => listeners.add(listener)
  const log = host.log('gitops')
  let methods: ReadonlyMap<string, Serve> = new Map()
  const serve = (served: ReadonlyMap<string, Serve>) => {
    methods = served
    kas.announce()
  }
  const parts = { api, identities, kas, configuration, block, written, onBlock, serve, metrics, tracer, log }
  const components = { ...parts, clock, serverClock, random }
  const lead = async (term: Term) => {
    await named(term.signal, block, onBlock)
    if (term.signal.aborted) return
    const { leadGitops } = await import('./gitops.ts')
    await leadGitops(components, { namespace: self.meta.podNamespace, path }, term)
  }
  return {
    features: [driftFeature],
    /** Only the leading pod has them: by this kas finds it. */
    get methods() {
      return methods
    },
    lead,
  }
}

/** Resolves once the configuration has a block, or the signal aborts. */
function named(
  signal: AbortSignal,
  block: () => unknown,
  onBlock: (listener: () => void) => () => void,
): Promise<void> {
  return new Promise((resolve) => {
    const check = () => {
      if (block() === undefined && !signal.aborted) return
      unsubscribe()
      signal.removeEventListener('abort', check)
      resolve()
    }
    const unsubscribe = onBlock(check)
    signal.addEventListener('abort', check)
    check()
  })
}
