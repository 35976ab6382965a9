import { parseHostPort } from '../../lib/host-port.ts'

/** `cluster.discovery` of the configuration. */
export interface DiscoverySettings {
  readonly kubernetes?:
    | { readonly service: string | readonly string[]; readonly namespace?: string | undefined }
    | undefined
  /** a name, or a name and a port */
  readonly dns?: string | undefined
  /** each `host:port` */
  readonly static: readonly string[]
}

export interface Surroundings {
  /** whether this process runs in a pod */
  readonly inCluster: boolean
  /** of `cluster.listen`: that of members for which a source knows no port */
  readonly gossipPort: number
}

export type ChosenSource =
  | {
      readonly kind: 'kubernetes'
      readonly services: readonly string[]
      readonly namespace?: string
      readonly otherPort: number
    }
  | { readonly kind: 'dns'; readonly host: string; readonly port: number }
  | { readonly kind: 'static'; readonly members: readonly string[] }

export interface Choice {
  /** none: this replica is alone */
  readonly sources: readonly ChosenSource[]
  /** for the log: what was asked for and cannot be */
  readonly warnings: readonly string[]
}

/** The sources to ask: each that is configured, and never fewer because one fails (doc/discovery.md). */
export function chooseSources(settings: DiscoverySettings, { inCluster, gossipPort }: Surroundings): Choice {
  const { kubernetes, dns, static: members } = settings
  const sources: ChosenSource[] = []
  const warnings: string[] = []
  if (kubernetes && inCluster) {
    const { namespace } = kubernetes
    const services = [...new Set([kubernetes.service].flat())]
    sources.push({ kind: 'kubernetes', services, otherPort: gossipPort, ...(namespace ? { namespace } : {}) })
  } else if (kubernetes) {
    warnings.push('cluster.discovery.kubernetes has no effect: this process does not run in a pod')
  }
  if (dns !== undefined) sources.push({ kind: 'dns', ...(parseHostPort(dns) ?? { host: dns, port: gossipPort }) })
  if (members.length > 0) sources.push({ kind: 'static', members })
  return { sources, warnings }
}

/** Kubernetes sets both variables in each pod: where its API server is. */
export function runsInCluster(env: Readonly<Record<string, string | undefined>>): boolean {
  return Boolean(env.KUBERNETES_SERVICE_HOST && env.KUBERNETES_SERVICE_PORT)
}
