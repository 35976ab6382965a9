import type { ClusterSettings } from '../../../lib/kubeconfig.ts'
import type { LogLevel } from '../../../lib/log.ts'
import type { AgentkHost, AgentkModule } from '../../module.ts'
import { Views, type ViewsOptions } from './views.ts'

type Host = Pick<AgentkHost, 'api' | 'kas' | 'election' | 'self' | 'clock' | 'random' | 'log'>

export interface ViewsModuleOptions extends Pick<ViewsOptions, 'thread'> {
  /** of an account for views alone */
  readonly tokenFile?: string | undefined
}

/** What reads rules is loaded where views are on. */
const vendorRules = async () => (await import('../../health/custom/vendors.ts')).vendorRules()

/** Shows what runs in the cluster, and how it fares, to those who may list it. */
export function createViews(host: Host, { tokenFile, ...options }: ViewsModuleOptions): AgentkModule {
  const { api, kas, election, self, clock, random } = host
  const log = host.log('views')
  const cluster = api.access.settings
  const watched = tokenFile === undefined ? cluster : ownAccount(cluster, tokenFile)
  const settings = { cluster, watched, logLevel: log.level as LogLevel }
  const { podName } = self.meta
  const views = new Views({ kas, election, vendorRules, log, clock, random }, { podName, settings, ...options })
  return {
    get methods() {
      return views.methods
    },
    lead: views.lead,
  }
}

function ownAccount({ server, ca, serverName, skipVerify }: ClusterSettings, tokenFile: string): ClusterSettings {
  return { server, ca, serverName, skipVerify, token: { file: tokenFile } }
}
