import type { ClusterSettings } from '../../../lib/kubeconfig.ts'
import type { LogLevel } from '../../../lib/log.ts'
import { podShares } from '../../../lib/pod-shares.ts'
import type { AgentkHost, AgentkModule } from '../../module.ts'
import type { RuleReader } from './thread/rule-sources.ts'
import { Views, type ViewsComponents, type ViewsOptions } from './views.ts'
import { createViewsMetrics } from './views-metrics.ts'

type Host = Pick<
  AgentkHost,
  'api' | 'identities' | 'kas' | 'election' | 'self' | 'clock' | 'random' | 'register' | 'log'
>

export interface ViewsModuleOptions extends Pick<ViewsOptions, 'thread'> {
  /** file with the token of an account for views; undefined: agentk's own account */
  readonly tokenFile?: string | undefined
  /** gets users' rules of health */
  readonly written?: ViewsComponents['written']
}

/** Shows the objects of the cluster and their health to callers who may list them. */
export function createViews(host: Host, { tokenFile, written, ...options }: ViewsModuleOptions): AgentkModule {
  const { api, identities, kas, election, self, clock, random } = host
  const log = host.log('views')
  const cluster = api.access.settings
  const watched = tokenFile === undefined ? cluster : ownAccount(cluster, tokenFile)
  const { viewsHeapMb: heapMb } = podShares()
  const settings = { cluster, watched, mayImpersonate: identities.may, logLevel: log.level as LogLevel, heapMb }
  const { podName } = self.meta
  const metrics = createViewsMetrics(host.register)
  const views = new Views(
    { kas, election, loadRules, written, metrics, log, clock, random },
    { podName, settings, ...options },
  )
  return {
    get methods() {
      return views.methods
    },
    lead: views.lead,
  }
}

/** Loads the reader of rules, only once there is a views.yaml. */
async function loadRules(): Promise<RuleReader> {
  const { ruleReader } = await import('./thread/rule-sources.ts')
  return await ruleReader()
}

function ownAccount({ server, ca, serverName, skipVerify }: ClusterSettings, tokenFile: string): ClusterSettings {
  return { server, ca, serverName, skipVerify, token: { file: tokenFile } }
}
